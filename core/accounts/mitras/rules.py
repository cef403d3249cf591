"""When a mitra is available for a session (docs/product.md#eligible-mitras).

`check_available` decides about one mitra. The database function `free_mitras`
(piccolo_migrations/0002_functions.sql) decides the same about all mitras, for the availability count and for
invitations. tests/flows/test_availability.py compares the two.

Capacity is one of the conditions. `presence` in core/accounts/mitras/store.py counts the sessions of one mitra,
`free_mitras` those of all. An acceptance locks the mitra's row before it counts (core/pairing/answer.py), so that two
acceptances can't exceed the capacity (docs/invariants.md#i6).
"""

import datetime as dt
import enum
from typing import Protocol

import attrs

from core.base.errors import DomainError, Repeat
from core.base.languages import Text


class HeartbeatChannel(enum.StrEnum):
    """The channel of a mitra's last heartbeat; `any` until the first one after the mitra went online."""

    ANY = "any"
    SOCKET = "socket"
    REST = "rest"


class StatusReason(enum.StrEnum):
    """Why a mitra went online or offline."""

    SELF = "self"  # the mitra chose to
    STALE = "stale"  # no heartbeat arrived for too long
    OPERATOR = "operator"
    DEACTIVATED = "deactivated"  # an operator has deactivated the mitra, whose auth sessions end


class MitraOffline(DomainError):
    """The mitra is not active, not online, not signed in, or has been silent for too long. After a block the mitra
    looks so to the customer."""

    code = "MITRA_OFFLINE"
    message = Text(en="The mitra is offline.", id="Mitra sedang offline.")
    repeat = Repeat.LATER
    advice = "Customer: offer another mitra or a blast. Mitra: go online, then repeat the request."


class MitraAtCapacity(DomainError):
    """The mitra has as many sessions as `max_customers_per_mitra` allows."""

    code = "MITRA_AT_CAPACITY"
    message = Text(
        en="The mitra already has the maximum number of sessions.",
        id="Mitra sudah melayani sesi sebanyak yang diizinkan.",
    )
    repeat = Repeat.LATER
    advice = "Customer: offer another mitra or a blast. Mitra: keep the request, room may come."


class NoMitraAvailable(DomainError):
    """No mitra could take a session at the moment of the request, and `refuse_unservable_payments` is on.

    With `accept_wait: true` the same request is accepted.
    """

    code = "NO_MITRA_AVAILABLE"
    message = Text(en="No mitra is available at the moment.", id="Belum ada mitra yang tersedia saat ini.")
    repeat = Repeat.LATER
    advice = (
        "Ask the customer whether they want to wait. If so, send the request with `accept_wait: true` and a new key."
    )


class NumberChanged(Exception):
    """The mitra got another phone number while the caller waited for its locks: the caller must start again.

    The locks of codes come before that of the mitra's row, so the number is read first and compared afterwards.
    """


@attrs.frozen(kw_only=True)
class AvailabilityPolicy:
    """The configured limits that decide which mitras are available for a session.

    `stale_after_seconds` is service time without a heartbeat, ignored unless `require_ping`. `capacity` is the number
    of sessions that a mitra may have.
    """

    require_ping: bool
    stale_after_seconds: float
    capacity: int


class Configuration(Protocol):
    """The configured values, by name."""

    def flag(self, name: str) -> bool: ...
    def number(self, name: str) -> int: ...
    def seconds(self, name: str) -> dt.timedelta: ...


def availability_policy(config: Configuration) -> AvailabilityPolicy:
    """Return the availability policy as it is configured now."""
    return AvailabilityPolicy(
        require_ping=config.flag("require_mitra_ping"),
        stale_after_seconds=config.seconds("mitra_stale_after_seconds").total_seconds(),
        capacity=config.number("max_customers_per_mitra"),
    )


@attrs.frozen(kw_only=True)
class MitraPresence:
    """A mitra's state at one moment, as far as it decides about availability."""

    is_active: bool
    is_online: bool
    is_signed_in: bool  # has a living auth session
    silent_since: dt.datetime | None  # None while offline; excused silence does not count
    active_session_count: int
    is_blocked: bool  # the customer in question and the mitra have a block


def check_available(presence: MitraPresence | None, policy: AvailabilityPolicy, *, now: dt.datetime) -> None:
    """Check that a mitra can take a session, by the same conditions as `free_mitras`.

    Raises MitraOffline if the mitra is missing, inactive, offline, signed out, silent for too long or blocked, else
    MitraAtCapacity if they have as many sessions as allowed.
    """
    if presence is None or not (presence.is_active and presence.is_online and presence.is_signed_in):
        raise MitraOffline
    if presence.is_blocked:
        raise MitraOffline
    stale_after = dt.timedelta(seconds=policy.stale_after_seconds)
    if policy.require_ping and (presence.silent_since is None or presence.silent_since + stale_after <= now):
        raise MitraOffline
    if presence.active_session_count >= policy.capacity:
        raise MitraAtCapacity
