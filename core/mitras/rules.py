"""When a mitra may take requests. The predicate itself is the database function `free_mitras`: one for the availability
count, the blast, the targeted check and the accept."""

import datetime as dt
import enum

import attrs

from core.base.errors import DomainError
from core.base.freedom import Freedom
from core.base.languages import Text


class Channel(enum.StrEnum):
    """How a mitra's last heartbeat came: `any` until the first one since the mitra went online."""

    ANY = "any"
    SOCKET = "socket"
    REST = "rest"


class StatusReason(enum.StrEnum):
    """Why a mitra went online or offline."""

    SELF = "self"  # the mitra wished it
    STALE = "stale"  # no heartbeat came for too long
    OPERATOR = "operator"
    DEACTIVATED = "deactivated"  # an operator has deactivated the mitra, whose auth sessions end


class MitraOffline(DomainError):
    """The mitra is not active, not online, or has been silent for too long."""

    code = "MITRA_OFFLINE"
    message = Text(en="The mitra is offline.", id="Mitra sedang offline.")


class MitraAtCapacity(DomainError):
    """The mitra has as many sessions as `max_customers_per_mitra` allows."""

    code = "MITRA_AT_CAPACITY"
    message = Text(
        en="The mitra already has the maximum number of sessions.",
        id="Mitra sudah melayani sesi sebanyak yang diizinkan.",
    )


@attrs.frozen(kw_only=True)
class Presence:
    """What is known of one mitra at this moment."""

    is_active: bool
    is_online: bool
    silent_since: dt.datetime | None  # None while offline; not before the service could take heartbeats again
    active_session_count: int


def may_take(presence: Presence | None, freedom: Freedom, *, now: dt.datetime) -> None:
    """Say why a mitra can't take a session; the same conditions as `free_mitras`, in the order a person would ask.

    Raises MitraOffline or MitraAtCapacity.
    """
    if presence is None or not (presence.is_active and presence.is_online):
        raise MitraOffline
    stale_after = dt.timedelta(seconds=freedom.stale_after_seconds)
    if freedom.require_ping and (presence.silent_since is None or presence.silent_since + stale_after <= now):
        raise MitraOffline
    if presence.active_session_count >= freedom.capacity:
        raise MitraAtCapacity
