"""Rules of the books about time: what must have happened by now (docs/invariants.md#i7).

A timer is late only by what a restart or a busy machine costs, in real time. What is later than the margin is not late:
nobody does it, or it can't be done. So these rules are right while the service runs, and speak when no jobs process does.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

from core.reads.ledger_rule import Rule
from core.runtime import Runtime

MARGIN_S = 60.0  # real: the slowest restart, and the deadline of whatever a turn may be waiting for, several times over
SWEEP_S = 60.0  # service time (docs/product.md#fixed-constants)


def _before(runtime: Runtime, now: dt.datetime, *, sweeps: int) -> dt.datetime:
    """What was due before this moment, and found by so many sweeps since, is overdue."""
    return now - dt.timedelta(seconds=MARGIN_S * runtime.settings.sesi_time_scale + sweeps * SWEEP_S)


def _by_timer(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (_before(runtime, now, sweeps=0),)


def _by_sweep(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (_before(runtime, now, sweeps=1),)


def _unless_gateway(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
    """With the gateway enabled a request waits for the gateway's word, as long as that takes."""
    return None if runtime.gateway is not None else _by_sweep(runtime, now)


def _if_pings_are_required(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
    if not runtime.config.flag("require_mitra_ping"):
        return None
    return (_before(runtime, now, sweeps=0), runtime.config.seconds("mitra_stale_after_seconds").total_seconds(), now)


def _after_orphans(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    """A call is taken for an orphan a minute after it came, or a real second, whichever is longer; then a sweep finds it."""
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
        # Who falls back keeps the time of payment, but has the new search in the same transaction.
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
        # A setting that was tightened just now makes many late at once.
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
