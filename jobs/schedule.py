"""The work of the jobs process: every deadline and sweep, one line each.

Their durations are in docs/product.md#fixed-constants. Some timers are elsewhere: those of sockets and tokens in
realtime/watch.py, those of pushes in realtime/push.py, and the polls of every process in core/background.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from core.flows import (
    absent_parties,
    delivery,
    erasure_sweep,
    extension_answer,
    fair_clock,
    idempotency_purge,
    invoice_poll,
    login_identity,
    login_operator,
    login_otp_send,
    mitra_status,
    pairing_advance,
    partition_upkeep,
    payment_sweeps,
    presence_checks,
    process_lease,
    receipts,
    refund,
    retention,
    round_purge,
    session_timers,
    wait_estimates,
    webhook_receive,
)
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class Deadline:
    """Work that is due at a moment stored in the database; `kind` names it in core.reads.deadlines."""

    kind: str
    run: Callable[[Runtime], Awaitable[Any]]


@attrs.frozen(kw_only=True)
class Sweep:
    """Work that runs at intervals of `every_s` seconds (service time)."""

    name: str
    every_s: float
    run: Callable[[Runtime], Awaitable[Any]]


DEADLINES = (
    Deadline(kind="credit", run=fair_clock.credit),
    Deadline(kind="expiry", run=session_timers.expire),
    Deadline(kind="warning", run=session_timers.warn),
    Deadline(kind="round", run=pairing_advance.end_rounds),
    Deadline(kind="wave", run=pairing_advance.end_waves),
    Deadline(kind="repeat", run=pairing_advance.repeat_asked),
    Deadline(kind="grace", run=session_timers.complete),
    Deadline(kind="extension", run=extension_answer.time_out),
    Deadline(kind="stale", run=mitra_status.sweep_stale),
    Deadline(kind="presence_check", run=presence_checks.ask_silent),
    Deadline(kind="invoice_poll", run=invoice_poll.poll_due),
    Deadline(kind="refund", run=refund.ask_due),
)
# Expiry of payment requests, reconciliation, and deletion of old rows.
SWEEPS = (
    Sweep(name="expire_payments", every_s=60, run=payment_sweeps.expire_stale),
    Sweep(name="announce_again", every_s=60, run=payment_sweeps.announce_again),
    Sweep(name="signed_out", every_s=20, run=mitra_status.take_signed_out_offline),
    Sweep(name="close_asked", every_s=5, run=mitra_status.close_orphaned_invitations),
    Sweep(name="absences", every_s=5, run=absent_parties.sweep),
    Sweep(name="send_codes", every_s=5, run=login_otp_send.send_overdue),
    Sweep(name="erase_rest", every_s=5, run=erasure_sweep.go_on),
    Sweep(name="sign_receipts", every_s=5, run=receipts.sign_due),
    Sweep(name="stamp_webhooks", every_s=60, run=webhook_receive.close_abandoned_calls),
    Sweep(name="stamp_old_webhooks", every_s=3600, run=webhook_receive.close_old_calls),
    Sweep(name="purge_deliveries", every_s=600, run=delivery.purge),
    Sweep(name="purge_keys", every_s=3600, run=idempotency_purge.purge),
    Sweep(name="purge_rounds", every_s=3600, run=round_purge.purge),
    Sweep(name="purge_absences", every_s=600, run=absent_parties.purge),
    Sweep(name="estimate_waits", every_s=300, run=wait_estimates.refresh),
    Sweep(name="purge_promises", every_s=3600, run=wait_estimates.purge),
    Sweep(name="purge_outages", every_s=3600, run=process_lease.purge),
    Sweep(name="purge_invoice_counts", every_s=600, run=payment_sweeps.purge_invoice_counts),
    Sweep(name="purge_identity_tokens", every_s=3600, run=login_identity.purge_used_tokens),
    Sweep(name="purge_sign_in_attempts", every_s=600, run=login_operator.purge_attempts),
    Sweep(name="make_partitions", every_s=3600, run=partition_upkeep.keep_ahead),
    Sweep(name="remove_webhook_months", every_s=3600, run=retention.remove_webhook_months),
    Sweep(name="remove_trail_months", every_s=3600, run=retention.remove_trail_months),
    Sweep(name="remove_unproven_calls", every_s=3600, run=retention.remove_unproven_calls),
    Sweep(name="blank_sessions", every_s=3600, run=retention.blank_sessions),
    Sweep(name="remove_codes", every_s=3600, run=retention.remove_codes),
    Sweep(name="remove_auth_sessions", every_s=3600, run=retention.remove_auth_sessions),
    Sweep(name="remove_unused_customers", every_s=86_400, run=retention.remove_unused_customers),
)
