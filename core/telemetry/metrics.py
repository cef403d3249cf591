"""The Prometheus metrics of a process."""

import importlib.metadata
import itertools
import platform
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
    generate_latest,
)

from core.base.clock import machine_started_at

REGISTRY = CollectorRegistry()


class ProcessUse(ProcessCollector):
    """The memory, the processor time and the files of this process, on Linux (`process_…`)."""

    def _boot_time(self) -> float:
        """Return when the machine started. The library reads it from /proc/stat, which systemd hides from our units."""
        return machine_started_at()

    def describe(self) -> Iterable[Metric]:
        """Return the families; their values are ignored."""
        return self.collect()


ProcessUse(registry=REGISTRY)
VERSION = importlib.metadata.version("sesi")
Info("sesi_build", "The versions that the process runs: `version` of Sesi, and `python`.", registry=REGISTRY).info(
    {"version": VERSION, "python": platform.python_version()}
)

REQUESTS = Counter(
    "sesi_http_requests_total", "HTTP answers.", ["listener", "method", "route", "status"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram("sesi_http_request_seconds", "Time to answer.", ["listener"], registry=REGISTRY)
REFUSALS = Counter("sesi_refusals_total", "Refused requests and frames, by code.", ["code"], registry=REGISTRY)
LIMITED = Counter(
    "sesi_limited_total",
    "Requests, frames, calls and connections that a limit refused or cut off, by the limit's name in docs/security.md.",
    ["limit"],
    registry=REGISTRY,
)
CODES = Counter(
    "sesi_codes_total", "Codes, by outcome, with those of test numbers.", ["user_type", "outcome"], registry=REGISTRY
)
FAILED_SIGN_INS = Counter(
    "sesi_failed_sign_ins_total", "Refused sign-ins, by way and refusal.", ["way", "code"], registry=REGISTRY
)
UNDOCUMENTED_ANSWERS = Counter(
    "sesi_undocumented_answers_total",
    "Refusals that are missing from the route's declaration and its OpenAPI document.",
    ["route", "status", "code"],
    registry=REGISTRY,
)
SOCKETS = Gauge("sesi_sockets", "Open sockets of this process.", ["path"], registry=REGISTRY)
MESSAGES = Counter("sesi_messages_stored_total", "Chat messages committed by this process.", registry=REGISTRY)
BATCHES = Counter("sesi_message_batches_total", "Chat batches committed by this process.", registry=REGISTRY)
SIGNALS_DROPPED = Counter(
    "sesi_signals_dropped_total", "Signals that could not be published on the bus.", registry=REGISTRY
)
ENVELOPES_PUBLISHED = Counter(
    "sesi_bus_envelopes_published_total", "Envelopes queued, one for each session or recipient.", registry=REGISTRY
)
ENVELOPES_SKIPPED = Counter(
    "sesi_bus_envelopes_skipped_total", "Envelopes not published: no other realtime process lives.", registry=REGISTRY
)
ENVELOPES_DECODED = Counter(
    "sesi_bus_envelopes_decoded_total", "Envelopes of other processes that this process decoded.", registry=REGISTRY
)
JOB_RUNS = Counter("sesi_job_runs_total", "Runs of each job.", ["job"], registry=REGISTRY)
JOB_FAILURES = Counter("sesi_job_failures_total", "Failed runs of each job.", ["job"], registry=REGISTRY)
JOB_LATE_SECONDS = Histogram(
    "sesi_job_late_seconds",
    "Delay, in real seconds, between a deadline and its processing.",
    ["job"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
    registry=REGISTRY,
)
PARTITION_MONTHS_AHEAD = Gauge(
    "sesi_partition_months_ahead",
    "Months after the present one for which a table has partitions, as the jobs process last saw it.",
    ["table"],
    registry=REGISTRY,
)
PUSHES = Counter("sesi_pushes_total", "Attempts to send a push, by outcome.", ["outcome"], registry=REGISTRY)
PRESENCE_CHECKS = Counter(
    "sesi_presence_checks_total",
    "Presence checks: asked by push and answered by a heartbeat; not asked without a push token or because it was too "
    "late.",
    ["result"],
    registry=REGISTRY,
)
PRESENCE_CHECK_PUSHES = Counter(
    "sesi_presence_check_pushes_total",
    "Attempts to send the push of a presence check, by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
OUTAGE_OPEN = Gauge(
    "sesi_outage_open",
    "1 while this process cannot write to the database, or sees no living realtime or API process.",
    ["kind"],
    registry=REGISTRY,
)
OUTAGE_SECONDS = Counter(
    "sesi_outage_seconds_total", "Duration of the outages that this process has recorded.", ["kind"], registry=REGISTRY
)
CREDITS = Counter(
    "sesi_session_credits_total", "Sessions that got paid time back, by reason.", ["reason"], registry=REGISTRY
)
CREDITED_SECONDS = Counter(
    "sesi_session_credited_seconds_total",
    "Paid time that sessions got back, in seconds of service time, by reason.",
    ["reason"],
    registry=REGISTRY,
)
CLOCK_OFFSET = Gauge(
    "sesi_clock_moved_seconds", "Last correction of the service clock to the database's clock.", registry=REGISTRY
)
CLOCK_STEPS = Counter(
    "sesi_clock_steps_total",
    "Corrections of more than a second to the database's clock, each made in one step.",
    registry=REGISTRY,
)
TRACE_SPANS = Counter(
    "sesi_trace_spans_total",
    "Spans that the collector took (exported) or not (failed), and those for which the queue had no room (dropped).",
    ["outcome"],
    registry=REGISTRY,
)

DELIVERY_TRAIL_ROWS = Counter(
    "sesi_delivery_trail_rows_total", "New rows of the events' delivery trail, by stage.", ["stage"], registry=REGISTRY
)
DELIVERY_TRAIL_DROPPED = Counter(
    "sesi_delivery_trail_dropped_total",
    "Sent events that are missing in the delivery trail, because too many waited to be stored or storing them failed.",
    registry=REGISTRY,
)
EVENT_ACK_SECONDS = Histogram(
    "sesi_event_ack_seconds",
    "Real time from an event to its first acknowledgement.",
    ["event"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
    registry=REGISTRY,
)
SESSIONS_ENDED = Counter(
    "sesi_sessions_ended_total",
    "Sessions that ended, by final state. The cause of `completed` is the side that ended the session, or `timer`; "
    "that of `cancelled` and `failed` is a cause tag.",
    ["outcome", "cause"],
    registry=REGISTRY,
)
PAYMENTS = Counter(
    "sesi_payments_total",
    "Changes of payment requests: `requested`, `confirmed`, `consumed` (the money is earned), `failed` (paid without a "
    "chat), `retried` (paid, and offered to all mitras after a failure), `abandoned` or `expired`. The kind is "
    "`session` or `extension`.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
PROMISES = Counter(
    "sesi_promises_total",
    "Promised waits stored with payment requests: `shown` to the customer, or `withheld` while estimates are "
    "withdrawn.",
    ["kind"],
    registry=REGISTRY,
)
REFUNDS = Counter(
    "sesi_refunds_total",
    "Refunds that operators asked for (`requested`), and their results: `succeeded`, `declined` (the gateway made "
    "none) or `failed` (at the gateway); and refunds of earned money that operators made themselves (`by_hand`).",
    ["outcome"],
    registry=REGISTRY,
)
SIMULATIONS = Counter(
    "sesi_simulations_total",
    "Simulations that ended: `done`, `not_enough_history`, `too_slow` (killed after two minutes) or `died` with their "
    "process.",
    ["outcome"],
    registry=REGISTRY,
)
PAYMENT_TO_ACCEPT = Histogram(
    "sesi_payment_to_accept_seconds",
    "Service time from the confirmation of a payment to a mitra's acceptance. With a fallback it is the time since the "
    "first confirmation.",
    buckets=(1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600),
    registry=REGISTRY,
)
OTP_REQUESTED = Counter(
    "sesi_otp_requested_total", "Requests for a sign-in code that were stored.", ["user_type"], registry=REGISTRY
)
OTP_VERIFIED = Counter(
    "sesi_otp_verified_total",
    "Codes that users tried: `verified`, or the error code of the refusal.",
    ["user_type", "outcome"],
    registry=REGISTRY,
)
ABSENCES = Counter(
    "sesi_absences_total",
    "Absences of parties of active sessions, by user type, when they are `declared` and when the party has `returned`.",
    ["user_type", "change"],
    registry=REGISTRY,
)
ABSENCE_SECONDS = Counter(
    "sesi_absence_seconds_total",
    "Length of the absences whose parties have returned, by user type, in service time.",
    ["user_type"],
    registry=REGISTRY,
)
SEARCH_ROUNDS_FAILED = Counter(
    "sesi_search_rounds_failed_total",
    "Failed statements that store rounds of searches, by step: `begin` or `end`. The searches go on without them.",
    ["step"],
    registry=REGISTRY,
)
WEBHOOK_CALLS = Counter(
    "sesi_webhook_calls_total",
    "Calls of the payment gateway's webhook, by processing result.",
    ["result"],
    registry=REGISTRY,
)
PROVIDER_SECONDS = Histogram(
    "sesi_provider_seconds",
    "Time of a call to a provider, with the reading of its answer.",
    ["provider", "operation"],
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5),
    registry=REGISTRY,
)
PROVIDER_ERRORS = Counter(
    "sesi_provider_errors_total",
    "Failed calls to a provider: `timeout`, `connection`, `unreadable` (the answer), `server` (5xx), `limited` (429) "
    "or `credentials` (401, 403).",
    ["provider", "operation", "reason"],
    registry=REGISTRY,
)
POOL_WAIT = Histogram(
    "sesi_database_pool_wait_seconds",
    "Time until a pool gave a connection; includes connecting, if the pool grows.",
    ["pool"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "sesi_event_loop_lag_seconds",
    "Delay of the event loop, measured at each renewal of the process's lease, about once a second.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
    registry=REGISTRY,
)


DATABASE_REFUSALS = Counter(
    "sesi_database_refusals_total",
    "Statements and transactions that failed because the database is full, overloaded or away, by the SQLSTATE of its "
    "refusal (53100: its disk is full); `none` if it did not answer.",
    ["sqlstate"],
    registry=REGISTRY,
)
REPLICA_LAG = Gauge(
    "sesi_replica_lag_seconds",
    "The most that the replica of DATABASE_READ_URL is behind; NaN while it is away or is not set.",
    registry=REGISTRY,
)
REPORTS = Counter(
    "sesi_reports_total", "Reports read while DATABASE_READ_URL is set, by server.", ["server"], registry=REGISTRY
)


def start_at_zero(counter: Counter, *labels: Iterable[str]) -> None:
    """Export all combinations of these labels from the start.

    Prometheus does not count an event that makes a series.
    """
    for values in itertools.product(*labels):
        counter.labels(*values)


start_at_zero(DATABASE_REFUSALS, ("53100", "53200", "53300", "58030", "none"))
start_at_zero(CODES, ("customer", "mitra"), ("sent", "not sent", "test number"))
start_at_zero(LIMITED, ("otp_budget",))
start_at_zero(DELIVERY_TRAIL_ROWS, ("sent", "acknowledged", "pushed", "opened", "given_up"))
start_at_zero(OTP_REQUESTED, ("customer", "mitra"))
start_at_zero(OTP_VERIFIED, ("customer", "mitra"), ("verified",))
start_at_zero(PROMISES, ("shown", "withheld"))
start_at_zero(SIMULATIONS, ("done", "not_enough_history", "too_slow", "died"))
start_at_zero(REPORTS, ("primary", "replica"))


def exposition() -> bytes:
    """Return this process's metrics in Prometheus's text format."""
    return generate_latest(REGISTRY)
