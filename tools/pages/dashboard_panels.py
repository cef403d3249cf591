"""The panels of the Grafana dashboards, with their queries.

The figures of the cluster are read by one jobs process at a time. `max by` counts them once while they move to another.
"""

from typing import Literal

import attrs

RUPIAH = "currency:Rp"


@attrs.frozen
class Panel:
    """A panel. `queries`: legend -> expression; `unit` is one of Grafana's."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str = ""
    kind: Literal["stat", "timeseries"] = "timeseries"


@attrs.frozen
class Dashboard:
    """A dashboard. Its file has the name of its uid."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


def stat(title: str, unit: str, expression: str) -> Panel:
    """Return a panel with one number."""
    return Panel(title, unit, {title: expression}, kind="stat")


def an_hour(metric: str, *labels: str) -> str:
    """Return the rate of a counter, in events an hour, for each value of the labels."""
    return f"3600 * sum by ({', '.join(labels)}) (rate({metric}[$__rate_interval]))"


def a_second(metric: str, *labels: str) -> str:
    """Return the rate of a counter, in events a second, for each value of the labels."""
    return f"sum by ({', '.join(labels)}) (rate({metric}[$__rate_interval]))"


def quantile(share: float, histogram: str, *labels: str) -> str:
    """Return a quantile of a histogram for each value of the labels."""
    by = ", ".join([*labels, "le"])
    return f"histogram_quantile({share}, sum by ({by}) (rate({histogram}_bucket[$__rate_interval])))"


ACCEPTED = "sesi_payment_to_accept_seconds_count"
FAILED = 'sesi_sessions_ended_total{outcome="failed"}'

BUSINESS = (
    stat("Open failures", "none", "sum(max by (cause) (sesi_failures_open))"),
    stat("Money in open failures", RUPIAH, "sum(max by (cause) (sesi_failures_open_amount))"),
    stat("Oldest open failure", "s", "max(sesi_failures_oldest_seconds)"),
    stat("Searches", "none", "sum(max by (mode) (sesi_searches))"),
    stat("Mitras available", "none", 'max(sesi_mitras{state="available"})'),
    stat("Audit violations", "none", "sum(max by (rule) (sesi_audit_violations))"),
    Panel(
        "Payment requests an hour", "none", {"{{outcome}}": an_hour('sesi_payments_total{kind="session"}', "outcome")}
    ),
    Panel("Extensions an hour", "none", {"{{outcome}}": an_hour('sesi_payments_total{kind="extension"}', "outcome")}),
    Panel("Payment requests in progress", "none", {"{{status}}": "max by (status) (sesi_payment_requests)"}),
    Panel("Searches", "none", {"{{mode}}": "max by (mode) (sesi_searches)"}),
    Panel("Mitras", "none", {"{{state}}": "max by (state) (sesi_mitras)"}),
    Panel(
        "Searches that found a mitra",
        "percentunit",
        {
            "share in the last hour": f"sum(increase({ACCEPTED}[1h])) / (sum(increase({ACCEPTED}[1h])) + (sum(increase({FAILED}[1h])) or vector(0)))"
        },
    ),
    Panel(
        "From payment to acceptance",
        "s",
        {
            "half": quantile(0.5, "sesi_payment_to_accept_seconds"),
            "nine in ten": quantile(0.9, "sesi_payment_to_accept_seconds"),
        },
    ),
    Panel("Sessions", "none", {"{{status}}": "max by (status) (sesi_sessions)"}),
    Panel(
        "Sessions that ended, an hour",
        "none",
        {"{{outcome}}: {{cause}}": an_hour("sesi_sessions_ended_total", "outcome", "cause")},
    ),
    Panel("Open failures", "none", {"{{cause}}": "max by (cause) (sesi_failures_open)"}),
    Panel("Money in open failures", RUPIAH, {"{{cause}}": "max by (cause) (sesi_failures_open_amount)"}),
    Panel("Age of the oldest open failure", "s", {"oldest": "max(sesi_failures_oldest_seconds)"}),
    Panel("Webhook calls an hour", "none", {"{{result}}": an_hour("sesi_webhook_calls_total", "result")}),
    Panel("Codes requested an hour", "none", {"{{user_type}}": an_hour("sesi_otp_requested_total", "user_type")}),
    Panel(
        "Codes entered an hour",
        "none",
        {"{{user_type}}: {{outcome}}": an_hour("sesi_otp_verified_total", "user_type", "outcome")},
    ),
    Panel("Messages stored", "ops", {"messages": "sum(rate(sesi_messages_stored_total[$__rate_interval]))"}),
    Panel("Audit violations", "none", {"{{rule}}": "max by (rule) (sesi_audit_violations) > 0"}),
    Panel(
        "Time since the audit",
        "s",
        {"{{depth}}": "time() - max by (depth) (sesi_audit_finished_timestamp_seconds)"},
    ),
)

SERVICE = (
    *(stat(f"{name} processes", "none", f'count(up{{process="{name}"}} == 1)') for name in ("api", "realtime", "jobs")),
    stat("Open sockets", "none", "sum(sesi_sockets)"),
    stat("Overdue work", "none", "sum(max by (kind) (sesi_overdue_work))"),
    stat("Outages", "none", "sum(max by (kind) (sesi_outage_open))"),
    Panel("Requests", "reqps", {"{{listener}}": a_second("sesi_http_requests_total", "listener")}),
    Panel(
        "Answers that are errors",
        "reqps",
        {"{{listener}}: {{status}}": a_second('sesi_http_requests_total{status=~"5.."}', "listener", "status")},
    ),
    Panel(
        "Time to answer",
        "s",
        {
            "{{listener}}: half": quantile(0.5, "sesi_http_request_seconds", "listener"),
            "{{listener}}: 99 in 100": quantile(0.99, "sesi_http_request_seconds", "listener"),
        },
    ),
    Panel("Refusals", "reqps", {"{{code}}": f"topk(10, {a_second('sesi_refusals_total', 'code')})"}),
    Panel("Refused or cut off by a limit", "ops", {"{{limit}}": a_second("sesi_limited_total", "limit")}),
    Panel(
        "Refused sign-ins an hour", "none", {"{{way}}: {{code}}": an_hour("sesi_failed_sign_ins_total", "way", "code")}
    ),
    Panel("Open sockets", "none", {"{{path}} {{instance}}": "sum by (path, instance) (sesi_sockets)"}),
    Panel(
        "Messages and batches stored",
        "ops",
        {
            "messages": "sum(rate(sesi_messages_stored_total[$__rate_interval]))",
            "batches": "sum(rate(sesi_message_batches_total[$__rate_interval]))",
        },
    ),
    Panel("Pushes", "ops", {"{{outcome}}": a_second("sesi_pushes_total", "outcome")}),
    Panel(
        "Delay of timers",
        "s",
        {"{{exported_job}}: 95 in 100": quantile(0.95, "sesi_job_late_seconds", "exported_job")},
        "Prometheus renames our label `job`, because the target has one.",
    ),
    Panel("Failed jobs an hour", "none", {"{{exported_job}}": an_hour("sesi_job_failures_total", "exported_job")}),
    Panel("Overdue work", "s", {"{{kind}}, the oldest": "max by (kind) (sesi_overdue_oldest_seconds)"}),
    Panel(
        "Delay of the event loop",
        "s",
        {"{{process}} {{instance}}: 99 in 100": quantile(0.99, "sesi_event_loop_lag_seconds", "process", "instance")},
    ),
    Panel(
        "Busy database connections",
        "percentunit",
        {
            "{{process}} {{pool}}": 'sum by (process, pool) (sesi_database_pool_connections{state="busy"})'
            " / sum by (process, pool) (sesi_database_pool_size)"
        },
    ),
    Panel(
        "Wait for a database connection",
        "s",
        {"{{process}} {{pool}}: 95 in 100": quantile(0.95, "sesi_database_pool_wait_seconds", "process", "pool")},
    ),
    Panel(
        "Calls to providers",
        "reqps",
        {"{{provider}}: {{operation}}": a_second("sesi_provider_seconds_count", "provider", "operation")},
    ),
    Panel(
        "Failed calls to providers",
        "reqps",
        {"{{provider}}: {{reason}}": a_second("sesi_provider_errors_total", "provider", "reason")},
    ),
    Panel(
        "Time of calls to providers",
        "s",
        {"{{provider}}: {{operation}}: 95 in 100": quantile(0.95, "sesi_provider_seconds", "provider", "operation")},
    ),
    Panel("Codes an hour", "none", {"{{user_type}}: {{outcome}}": an_hour("sesi_codes_total", "user_type", "outcome")}),
    Panel("Runs of jobs", "ops", {"{{exported_job}}": a_second("sesi_job_runs_total", "exported_job")}),
    Panel(
        "Answers that no interface document has",
        "none",
        {"{{route}} {{status}} {{code}}": an_hour("sesi_undocumented_answers_total", "route", "status", "code")},
    ),
)

DATA = (
    Panel("Outages", "none", {"{{kind}}": "max by (kind) (sesi_outage_open)"}, "1 while an outage is open."),
    Panel("Seconds of outages an hour", "s", {"{{kind}}": an_hour("sesi_outage_seconds_total", "kind")}),
    Panel(
        "Seconds given back to sessions an hour",
        "s",
        {"{{reason}}": an_hour("sesi_session_credited_seconds_total", "reason")},
    ),
    Panel(
        "Database connections",
        "none",
        {"{{process}} {{pool}} {{state}}": "sum by (process, pool, state) (sesi_database_pool_connections)"},
    ),
    Panel("Lag of standbys", "s", {"{{standby}}": "max by (standby) (sesi_standby_lag_seconds)"}),
    Panel("Time without an archived segment", "s", {"while one waits": "max(sesi_log_unarchived_seconds)"}),
    Panel("Lag of the replica for reports", "s", {"{{instance}}": "max by (instance) (sesi_replica_lag_seconds)"}),
    Panel("Reports an hour", "none", {"from the {{server}}": an_hour("sesi_reports_total", "server")}),
    Panel("Months with partitions ahead", "none", {"{{table}}": "min by (table) (sesi_partition_months_ahead)"}),
    Panel(
        "Corrections of the clock",
        "s",
        {"{{instance}}": "max by (instance) (abs(sesi_clock_moved_seconds))"},
    ),
    Panel("Steps of the clock an hour", "none", {"{{instance}}": an_hour("sesi_clock_steps_total", "instance")}),
    Panel(
        "Envelopes on the bus",
        "ops",
        {
            "published by {{process}}": a_second("sesi_bus_envelopes_published_total", "process"),
            "decoded by {{process}}": a_second("sesi_bus_envelopes_decoded_total", "process"),
        },
    ),
    Panel(
        "Rows of the delivery trail",
        "ops",
        {
            "{{stage}}": a_second("sesi_delivery_trail_rows_total", "stage"),
            "dropped": "sum(rate(sesi_delivery_trail_dropped_total[$__rate_interval]))",
        },
    ),
    Panel("Dropped signals", "ops", {"{{process}}": a_second("sesi_signals_dropped_total", "process")}),
    Panel(
        "Age of the cluster's figures",
        "s",
        {"age": "time() - max(sesi_cluster_collected_timestamp_seconds)"},
    ),
)

DASHBOARDS = (
    Dashboard("sesi-business", "Sesi: payments, searches, sessions", BUSINESS),
    Dashboard("sesi-service", "Sesi: requests, sockets, jobs, providers", SERVICE),
    Dashboard("sesi-data", "Sesi: database and bus", DATA),
)
