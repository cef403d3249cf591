"""The Prometheus metrics of a process."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY = CollectorRegistry()

REQUESTS = Counter(
    "sesi_http_requests_total", "HTTP answers.", ["listener", "method", "route", "status"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram("sesi_http_request_seconds", "Time to answer.", ["listener"], registry=REGISTRY)
REFUSALS = Counter("sesi_refusals_total", "Refusals by code.", ["code"], registry=REGISTRY)
LIMITED = Counter(
    "sesi_limited_total",
    "Requests, frames, calls and connections that a limit refused or cut off, by the limit's name in docs/security.md.",
    ["limit"],
    registry=REGISTRY,
)
CODES = Counter(
    "sesi_codes_total",
    "Codes sent to the provider, by outcome, and those of test numbers.",
    ["user_type", "outcome"],
    registry=REGISTRY,
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
    "sesi_bus_envelopes_published_total",
    "Envelopes that this process queued for the bus, one for each session or recipient.",
    registry=REGISTRY,
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
OUTAGE_OPEN = Gauge(
    "sesi_outage_open",
    "1 while this process cannot write to the database, or sees no living realtime or API process.",
    ["kind"],
    registry=REGISTRY,
)
OUTAGE_SECONDS = Counter(
    "sesi_outage_seconds_total", "Duration of the outages that this process has recorded.", ["kind"], registry=REGISTRY
)
CLOCK_OFFSET = Gauge(
    "sesi_clock_moved_seconds", "Last correction of the service clock to the database's clock.", registry=REGISTRY
)
CLOCK_STEPS = Counter(
    "sesi_clock_steps_total",
    "Corrections of more than a second to the database's clock, each made in one step.",
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


def exposition() -> bytes:
    """Return this process's metrics in Prometheus's text format."""
    return generate_latest(REGISTRY)
