"""The sweeps of the jobs process, one line each. Its deadlines are in core/desk/timed_work.py.

Their durations are in docs/product.md#fixed-constants. Some timers are elsewhere: those of sockets and tokens in
realtime/watch.py, those of pushes in realtime/push.py, and the polls of every process in core/runtime/background.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from core.accounts.logins import send_code, sign_in_with_identity
from core.accounts.operators import sign_in as operator_sign_in
from core.cluster import process_lease
from core.desk.simulations import simulate
from core.idempotency import run as purge_keys
from core.pairing import presence, round_records
from core.pairing.promises import promise as wait_estimates
from core.payments import sweeps as payment_sweeps
from core.payments.webhooks import receive as webhook_receive
from core.privacy import erase_rest, partition_upkeep, retention
from core.runtime.container import Runtime
from core.sessions import deliver
from core.sessions.absences import declare as absences
from core.sessions.receipts import show as show_receipts
from jobs import simulation


@attrs.frozen(kw_only=True)
class Sweep:
    """Work that runs at intervals of `every_s` seconds (service time)."""

    name: str
    every_s: float
    run: Callable[[Runtime], Awaitable[Any]]


# Expiry of payment requests, reconciliation, and deletion of old rows.
SWEEPS = (
    Sweep(name="expire_payments", every_s=60, run=payment_sweeps.expire_stale),
    Sweep(name="announce_again", every_s=60, run=payment_sweeps.announce_again),
    Sweep(name="signed_out", every_s=20, run=presence.take_signed_out_offline),
    Sweep(name="close_asked", every_s=5, run=presence.close_orphaned_invitations),
    Sweep(name="absences", every_s=5, run=absences.sweep),
    Sweep(name="send_codes", every_s=5, run=send_code.send_overdue),
    Sweep(name="erase_rest", every_s=5, run=erase_rest.go_on),
    Sweep(name="sign_receipts", every_s=5, run=show_receipts.sign_due),
    Sweep(name="simulate", every_s=2, run=simulation.run_waiting),
    Sweep(name="stamp_webhooks", every_s=60, run=webhook_receive.close_abandoned_calls),
    Sweep(name="stamp_old_webhooks", every_s=3600, run=webhook_receive.close_old_calls),
    Sweep(name="purge_deliveries", every_s=600, run=deliver.purge),
    Sweep(name="purge_keys", every_s=3600, run=purge_keys.purge),
    Sweep(name="purge_rounds", every_s=3600, run=round_records.purge),
    Sweep(name="purge_absences", every_s=600, run=absences.purge),
    Sweep(name="estimate_waits", every_s=300, run=wait_estimates.refresh),
    Sweep(name="purge_promises", every_s=3600, run=wait_estimates.purge),
    Sweep(name="purge_simulations", every_s=3600, run=simulate.purge),
    Sweep(name="purge_outages", every_s=3600, run=process_lease.purge),
    Sweep(name="purge_invoice_counts", every_s=600, run=payment_sweeps.purge_invoice_counts),
    Sweep(name="purge_identity_tokens", every_s=3600, run=sign_in_with_identity.purge_used_tokens),
    Sweep(name="purge_sign_in_attempts", every_s=600, run=operator_sign_in.purge_attempts),
    Sweep(name="make_partitions", every_s=3600, run=partition_upkeep.keep_ahead),
    Sweep(name="remove_webhook_months", every_s=3600, run=retention.remove_webhook_months),
    Sweep(name="remove_trail_months", every_s=3600, run=retention.remove_trail_months),
    Sweep(name="remove_unproven_calls", every_s=3600, run=retention.remove_unproven_calls),
    Sweep(name="blank_sessions", every_s=3600, run=retention.blank_old_sessions),
    Sweep(name="blank_reports", every_s=3600, run=retention.blank_reports),
    Sweep(name="remove_codes", every_s=3600, run=retention.remove_codes),
    Sweep(name="remove_auth_sessions", every_s=3600, run=retention.remove_auth_sessions),
    Sweep(name="remove_unused_customers", every_s=86_400, run=retention.remove_unused_customers),
)
