"""When a mitra may take requests. The predicate itself is the database function `free_mitras`: one for the availability
count, the blast, the targeted check and the accept."""

import datetime as dt

import attrs

from core.base.errors import DomainError
from core.base.freedom import Freedom


class MitraOffline(DomainError):
    """The mitra is not online, not active, or has not been heard of for too long."""

    code = "MITRA_OFFLINE"
    message = "The mitra is offline."


class MitraAtCapacity(DomainError):
    """The mitra has as many sessions as allowed."""

    code = "MITRA_AT_CAPACITY"
    message = "The mitra has as many sessions as allowed."


@attrs.frozen(kw_only=True)
class Presence:
    """What is known of one mitra at this moment."""

    is_active: bool
    is_online: bool
    last_heartbeat_at: dt.datetime | None
    active_session_count: int


def may_take(presence: Presence | None, freedom: Freedom, *, now: dt.datetime) -> None:
    """Say why a mitra can't take a session; the same conditions as `free_mitras`, in the order a person would ask.

    Raises MitraOffline or MitraAtCapacity.
    """
    if presence is None or not (presence.is_active and presence.is_online):
        raise MitraOffline
    stale_after = dt.timedelta(seconds=freedom.stale_after_seconds)
    if freedom.require_ping and (presence.last_heartbeat_at is None or presence.last_heartbeat_at + stale_after <= now):
        raise MitraOffline
    if presence.active_session_count >= freedom.capacity:
        raise MitraAtCapacity
