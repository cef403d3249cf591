"""The tests and chaos faults that prove each row of docs/faults.md; `python -m tests.faults.table` writes the page."""

import ast
import pathlib

from tests.faults.chaos.schedule import KINDS, LIBRARY_KINDS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
HEAD = """# Faults

Each fault that the service must survive, and the tests that prove it. `chaos` is a fault of the seeded run
(`make chaos`), `load` a scenario of the same runner (`python -m tests.faults.chaos.run --scenario …`), everything else a test
of `make test-all`. This page is made from `tests/faults/table.py` by `make pages`, and a test keeps it current.

| fault | proved by |
|---|---|
"""
LOADS = ("sockets", "mitras", "talk")
KILLS = ("kill api", "kill realtime", "kill jobs")

# fault -> file (and test) under tests, `chaos: <fault>`, or `load: <scenario>`.
FAULTS: dict[str, tuple[str, ...]] = {
    "A process is killed (SIGKILL) just before or just after each commit of a paid session": (
        "faults/test_kill_points.py::test_api_process_killed_at_each_commit_loses_nothing",
        "faults/test_kill_points.py::test_realtime_process_killed_around_a_message_batch_loses_nothing",
        "faults/test_kill_points.py::test_jobs_process_killed_at_each_timer_loses_nothing",
    ),
    "Each process is killed (SIGKILL) at each step of a paid session": (
        "faults/outages/test_outages.py::test_paid_session_survives_the_kill_of_every_process_at_every_step",
        "faults/outages/test_outages.py::test_payment_confirmed_by_a_process_that_died_gets_its_session",
        "sockets/phones/test_many_devices.py::test_phones_show_what_is_stored_after_kills_during_the_chat",
        "sockets/test_two_realtime.py::test_clients_of_a_killed_process_continue_at_the_other_without_loss",
        "sockets/push/test_pushes.py::test_kill_between_event_and_push_loses_no_push",
        "http/gateway/test_invoices.py::test_repeat_after_a_kill_between_invoice_and_answer_gets_the_same_request",
        *(f"chaos: {kind}" for kind in KILLS),
        "load: talk",
    ),
    "The jobs process is killed while it blanks the texts of an erased customer; the api process before the commit": (
        "http/privacy/test_erasure_races.py::test_jobs_process_killed_in_the_middle_of_the_texts_goes_on_later",
        "http/privacy/test_erasure_races.py::test_api_process_killed_before_the_commit_erases_nothing",
    ),
    "A process dies at any line while it rewrites a fallback file": (
        "unit/test_webhook_files.py::test_process_that_dies_at_a_line_leaves_the_old_file",
    ),
    "The jobs process or its child dies while it simulates, or the simulation takes too long": (
        "faults/test_simulations.py",
        "flows/test_simulations.py::test_simulation_of_a_dead_process_is_ended_by_another",
        "flows/test_simulations.py::test_killed_child_ends_the_simulation_at_once",
        "flows/test_simulations.py::test_simulation_is_killed_at_its_limit",
    ),
    "A part of the service fails, and operators look": ("faults/test_health.py",),
    "PostgreSQL restarts": (
        "faults/outages/test_outages.py::test_calls_without_the_database_get_unavailable_then_recover",
        "chaos: postgres killed",
        "chaos: postgres stopped",
    ),
    "The primary of PostgreSQL is replaced by a synchronous standby, as planned or because it died or froze": (
        "faults/failover/test_failover.py::test_primary_with_a_synchronous_standby_fails_over_without_loss",
        "ha/test_postgres.py::test_switchover_by_patroni_loses_nothing",
        "ha/test_postgres.py::test_death_of_the_leader_behind_pgbouncer_loses_nothing",
    ),
    "An asynchronous standby without the latest commits becomes the primary": (
        "faults/failover/test_lossy_failover.py::test_failover_that_loses_commits_resyncs_phones_and_signs_out_no_device",
    ),
    "The replica for reports is lost, freezes or falls behind": (
        "faults/failover/test_replica.py::test_lost_replica_is_replaced_by_the_primary_at_once",
        "faults/failover/test_replica.py::test_frozen_replica_is_replaced_by_the_primary_within_seconds",
        "faults/failover/test_replica.py::test_replica_that_is_too_far_behind_is_not_used",
    ),
    "All connections to PostgreSQL are reset": (
        "faults/test_networks.py::test_cutting_all_database_connections_fails_no_call",
        "chaos: postgres connections reset",
        "chaos: postgres refuses",
    ),
    "The chat is out for seconds or minutes, with the fair clock on; the process that gives the time back dies": (
        "faults/outages/test_fair_clock.py::test_killed_processes_give_each_session_the_outage_before_any_deadline_passes",
        "faults/outages/test_fair_clock.py::test_frozen_database_gives_each_session_the_outage",
        "faults/outages/test_fair_clock.py::test_one_of_two_dead_realtime_processes_gives_nothing",
        "faults/outages/test_fair_clock.py::test_overlapping_outages_count_once_and_an_extension_keeps_its_minutes",
        "faults/outages/test_fair_clock.py::test_credit_is_given_once_if_its_process_dies_at_the_commit",
    ),
    "PostgreSQL is frozen (for 30 s in a run of two minutes or more)": (
        "faults/test_networks.py::test_calls_while_the_database_is_frozen_get_unavailable_then_recover",
        "faults/test_networks.py::test_phone_repeats_a_request_that_got_no_answer",
        "chaos: postgres hangs",
        "chaos: postgres hangs for one",
    ),
    "A process restarts repeatedly, runs late, refuses clients, or has no free database connection": (
        "flows/test_outage_records.py::test_silence_is_excused_for_a_bounded_time_unless_no_process_served",
        "flows/test_outage_records.py::test_restarting_process_keeps_a_silent_mitra_online_for_a_bounded_time",
        "flows/test_outage_records.py::test_silence_does_not_count_while_a_process_refuses_clients",
        "flows/test_outage_records.py::test_lease_is_renewed_while_every_other_connection_is_busy",
        "sockets/test_admission.py::test_probes_answer_and_upgrades_are_refused_when_files_run_out",
    ),
    "The database, the realtime processes or all processes are down for a minute; mitras with a live phone stay online": (
        "faults/test_presence.py::test_live_mitras_stay_online_when_the_database_is_frozen_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_the_database_refuses_connections_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_the_database_is_dead_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_all_realtime_processes_are_dead_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_one_realtime_process_loses_the_database",
        "faults/test_presence.py::test_live_mitras_stay_online_when_every_process_is_dead_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_while_slow_processes_serve_a_thousand_reconnects",
        "faults/test_presence.py::test_silent_mitra_is_taken_offline_in_time_while_the_other_channel_is_down",
        "chaos: postgres hangs",
    ),
    "The reply to a COMMIT is lost": (
        "faults/test_lost_answers.py::test_payment_request_repeated_after_a_lost_commit_reply_is_created_once",
        "faults/test_lost_answers.py::test_webhook_repeated_after_a_lost_commit_reply_is_a_duplicate",
        "faults/test_lost_answers.py::test_accept_repeated_after_a_lost_commit_reply_still_wins",
        "faults/test_lost_answers.py::test_refresh_repeated_after_a_lost_commit_reply_returns_the_same_successor",
        "faults/test_lost_answers.py::test_message_batch_repeated_after_a_lost_commit_reply_is_stored_once",
        "faults/test_lost_answers.py::test_rest_message_repeated_after_a_lost_commit_reply_is_stored_once",
        "chaos: postgres answers lost",
    ),
    "Redis is flushed or restarts": (
        "faults/outages/test_outages.py::test_events_and_messages_without_redis_arrive_on_every_process",
        "chaos: redis flushed",
        "chaos: redis killed",
    ),
    "Redis is frozen, or unreachable for 0.6 s or longer": (
        "faults/test_networks.py::test_events_and_messages_during_a_redis_outage_arrive_once",
        "chaos: redis hangs",
        "chaos: redis refuses",
        "chaos: redis refuses for long",
    ),
    "Redis is replaced or frozen behind a proxy that keeps its clients connected": (
        "faults/test_bus_links.py::test_subscription_lost_behind_a_proxy_that_keeps_the_connection_is_renewed",
        "faults/test_bus_links.py::test_subscription_to_a_server_frozen_behind_a_proxy_is_renewed",
    ),
    "A client never reads from its socket": (
        "sockets/test_messages.py::test_client_that_never_reads_is_disconnected_without_harming_others",
    ),
    "Phones lose the network": (
        "sockets/phones/test_many_devices.py::test_phones_show_what_is_stored_after_kills_during_the_chat",
        "chaos: phones lose the network",
        "faults/chaos/test_short_chaos.py::test_phones_of_the_library_that_fail_and_restart_show_what_is_stored",
    ),
    "An app of the client library is killed, or its network hangs (`make chaos CLIENT=typescript`)": (
        "faults/chaos/test_short_chaos.py::test_phones_of_the_library_that_fail_and_restart_show_what_is_stored",
        "chaos: phones restart",
        "chaos: phones hang",
    ),
    "The clock of a machine jumps": (
        "faults/test_frozen.py::test_service_clock_follows_only_the_database_clock",
        "unit/test_service_clock.py::test_adopting_the_database_clock_returns_the_difference",
    ),
    "Webhooks arrive twice at the same time, out of order, or late": (
        "http/payments/test_webhook.py::test_fifty_concurrent_identical_calls_confirm_once",
        "faults/races/test_races.py::test_concurrent_duplicate_webhooks_confirm_once",
        "chaos: kill api",
    ),
    "Some of two or five jobs processes are suspended": (
        "journeys/test_deadlines.py::test_two_jobs_processes_act_once_and_one_continues_without_the_other",
        "faults/test_frozen.py::test_deadline_with_three_of_five_jobs_processes_suspended_takes_effect_once",
        "faults/test_frozen.py::test_jobs_process_suspended_in_a_transaction_delays_the_others_by_seconds",
        "chaos: freeze jobs",
    ),
    "Api and realtime processes are suspended": (
        "faults/test_frozen.py::test_suspended_api_process_delays_its_clients_but_loses_nothing",
        "faults/test_frozen.py::test_suspended_realtime_process_loses_nothing",
        "chaos: freeze api",
        "chaos: freeze realtime",
    ),
    "1,000 mitras accept one request at the same time": (
        "faults/races/test_races.py::test_thirty_concurrent_accepts_have_one_winner",
        "load: mitras",
    ),
    "The same payment request is created 50 times at the same time": (
        "http/payments/test_payments_api.py::test_fifty_concurrent_requests_leave_one_pending",
    ),
    "An accept races with a cancel, a timeout, going offline, or a fallback to a blast": (
        "faults/races/test_races.py::test_accept_racing_a_cancel_has_one_outcome",
        "faults/races/test_races.py::test_accept_racing_the_end_of_the_search_has_one_outcome",
        "faults/races/test_races.py::test_accept_racing_going_offline_leaves_no_open_invitation",
        "http/pairing/test_fallback.py::test_fallback_racing_an_accept_has_one_outcome",
    ),
    "A customer asks another mitra twice at once, while an operator refunds, or while that mitra goes offline": (
        "http/pairing/test_retarget.py::test_concurrent_retargets_start_one_search",
        "http/pairing/test_retarget.py::test_retarget_racing_an_operators_refund_has_one_outcome",
        "http/pairing/test_retarget.py::test_retarget_racing_its_mitra_who_goes_offline_has_one_outcome",
        "http/pairing/test_retarget.py::test_retarget_racing_a_fallback_starts_one_search",
    ),
    "Two accounts link one identity at once, or one links it while another device signs in with it": (
        "http/sign_in/test_links.py::test_two_accounts_that_link_one_identity_at_once_leave_it_with_one",
        "http/sign_in/test_links.py::test_link_racing_a_sign_in_with_the_identity_leaves_it_with_one",
        "http/sign_in/test_links.py::test_unlinking_both_identities_at_once_leaves_one",
    ),
    "The answer to an extension races with its timeout and with the session's end": (
        "http/extensions/test_extension_races.py",
    ),
    "One token is refreshed 50 times at the same time": (
        "http/sign_in/test_accounts.py::test_fifty_concurrent_refreshes_return_the_same_successor",
    ),
    "10,000 sockets drop at the same time and reconnect": ("load: sockets",),
    "A process gets SIGTERM under load": (
        "faults/outages/test_outages.py::test_sigterm_stops_each_process_gracefully",
        "chaos: term api",
        "chaos: term realtime",
        "chaos: term jobs",
    ),
    "`webhook_logs` is not writable, and the disk of the fallback file is full": (
        "faults/test_networks.py::test_webhook_takes_effect_when_neither_log_nor_file_can_store_it",
        "http/gateway/test_fallback_file.py::test_fallback_file_that_is_off_or_full_is_reported",
        "http/gateway/test_fallback_file.py::test_hanging_disk_does_not_delay_the_webhook_reply",
        "http/gateway/test_fallback_file.py::test_import_of_unprocessed_calls_takes_effect_once",
    ),
}


def missing() -> list[str]:
    """Return the proofs that do not exist, and the chaos faults that no row names."""
    found = [proof for proofs in FAULTS.values() for proof in proofs if not _exists(proof)]
    named = {proof.removeprefix("chaos: ") for proofs in FAULTS.values() for proof in proofs}
    return [*found, *(kind for kind in KINDS | LIBRARY_KINDS if kind not in named)]


def _exists(proof: str) -> bool:
    what, colon, name = proof.partition(": ")
    if colon:
        return name in (KINDS | LIBRARY_KINDS if what == "chaos" else LOADS)
    file, _, test = proof.partition("::")
    path = ROOT / "tests" / file
    if not path.exists() or not test:
        return path.exists()
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test for node in tree.body)


def page() -> str:
    """Return the text of the page."""
    rows = [f"| {fault} | {'<br>'.join(f'`{proof}`' for proof in proofs)} |" for fault, proofs in FAULTS.items()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
