"""Audit rules about overdue work (docs/invariants.md#i7).

A restart or a busy machine can delay a timer, but by less than MARGIN_S of real time. Work that is later than that is
not done at all. So these rules find nothing while the service runs, and violations if no jobs process runs.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

from core.reads.ledger_rule import Rule
from core.runtime import Runtime

MARGIN_S = 60.0  # real time: several times the slowest restart plus the longest wait of a jobs process
SWEEP_S = 60.0  # service time (docs/product.md#fixed-constants)


def _before(runtime: Runtime, now: dt.datetime, *, sweeps: int) -> dt.datetime:
    """Return the time before which due work is overdue. `sweeps` is how many sweeps may pass until it is found."""
    return now - dt.timedelta(seconds=MARGIN_S * runtime.settings.sesi_time_scale + sweeps * SWEEP_S)


def _by_timer(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (_before(runtime, now, sweeps=0),)


def _by_sweep(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (_before(runtime, now, sweeps=1),)


def _unless_gateway(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
    """Skip the rule if the gateway is enabled: a request then expires only after the gateway has answered."""
    return None if runtime.gateway is not None else _by_sweep(runtime, now)


def _if_pings_are_required(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
    if not runtime.config.flag("require_mitra_ping"):
        return None
    return (_before(runtime, now, sweeps=0), runtime.config.seconds("mitra_stale_after_seconds").total_seconds(), now)


def _after_orphans(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    """A call counts as an orphan one minute of service time after it was received, but at least one real minute.

    The next sweep finds it.
    """
    orphan = dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
    return (_before(runtime, now, sweeps=1) - orphan,)


def _in_real_seconds(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (runtime.settings.push_ack_seconds + MARGIN_S,)


def _rule(
    name: str, proves: str, sql: str, due: Callable[[Runtime, dt.datetime], tuple[Any, ...] | None] = _by_timer
) -> Rule:
    return Rule(name=name, proves=proves, sql=sql, due=due)


OVERDUE: tuple[Rule, ...] = (
    _rule(
        "a search ends with its round or its time limit",
        "I3 I7",
        """SELECT id::text, format('round until %s, search until %s', round_ends_at, search_ends_at) FROM chat_sessions
           WHERE status = 'searching' AND least(round_ends_at, search_ends_at) < $1""",
    ),
    _rule(
        # A fallback to a blast keeps the old time of payment, but its new search is stored in the same transaction.
        "a confirmed payment request has a session or an extension",
        "I3",
        """SELECT p.id::text, format('confirmed %s', p.confirmed_at) FROM payment_requests p
           WHERE p.status = 'confirmed' AND p.confirmed_at < $1
             AND NOT EXISTS (SELECT 1 FROM chat_sessions s WHERE s.payment_request_id = p.id AND s.status NOT IN ('failed', 'cancelled'))
             AND NOT EXISTS (SELECT 1 FROM session_extensions e WHERE e.payment_request_id = p.id)""",
        _by_sweep,
    ),
    _rule(
        "an unpaid request expires",
        "I7",
        "SELECT id::text, format('until %s', expires_at) FROM payment_requests WHERE status = 'pending' AND expires_at < $1",
        _unless_gateway,
    ),
    _rule(
        "a session ends with its paid time",
        "I7",
        "SELECT id::text, format('ends %s', expires_at) FROM chat_sessions WHERE status = 'active' AND expires_at < $1",
    ),
    _rule(
        "an extension is answered by its deadline",
        "I7",
        "SELECT id::text, format('answer by %s', answer_by) FROM session_extensions WHERE status = 'pending' AND answer_by < $1",
    ),
    _rule(
        "a session is completed after its grace period",
        "I7",
        """SELECT s.id::text, format('%s until %s', s.status, s.grace_ends_at) FROM chat_sessions s
           WHERE s.status IN ('expired', 'closing') AND s.grace_ends_at < $1
             AND NOT EXISTS (SELECT 1 FROM session_extensions e WHERE e.session_id = s.id AND (e.status = 'pending' OR e.responded_at >= $1))""",
    ),
    _rule(
        # Not checked just after a change of the two settings, because a stricter one makes many mitras overdue at once.
        "a silent mitra is taken offline",
        "I7",
        """SELECT mitra_id::text, format('silent since %s', silent_since) FROM mitra_silences($3)
           WHERE silent_since + make_interval(secs => $2::float8) < $1 AND coalesce((SELECT max(updated_at) FROM app_config
             WHERE key IN ('require_mitra_ping', 'mitra_stale_after_seconds')) < $1, true)""",
        _if_pings_are_required,
    ),
    _rule(
        "every webhook call has a result",
        "I10",
        "SELECT id::text, format('received %s', received_at) FROM webhook_logs WHERE http_status IS NULL AND received_at < $1",
        _after_orphans,
    ),
    _rule(
        "an unacknowledged event becomes a push",
        "docs/events.md",
        """SELECT id::text, format('%s of %s', event, created_at) FROM deliveries
           WHERE pushed_real_at IS NULL AND created_at < transaction_timestamp() - make_interval(secs => $1::float8)""",
        _in_real_seconds,
    ),
)
