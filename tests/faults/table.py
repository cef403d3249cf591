"""The tests and chaos faults that prove each row of docs/faults.md; `python -m tests.faults.table` writes the page."""

import ast
import pathlib

from tests.chaos.schedule import KINDS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
HEAD = """# Faults

Each fault that the service must survive, and the tests that prove it. `chaos` is a fault of the seeded run
(`make chaos`), `load` a scenario of the same runner (`python -m tests.chaos.run --scenario …`), everything else a test
of `make test`. This page is made from `tests/faults/table.py` by `make pages`, and a test keeps it current.

| fault | proved by |
|---|---|
"""
LOADS = ("sockets", "mitras", "talk")
KILLS = ("kill api", "kill realtime", "kill jobs")

# fault -> file (and test) under tests, `chaos: <fault>`, or `load: <scenario>`.
FAULTS: dict[str, tuple[str, ...]] = {
    "A process is killed (SIGKILL) just before or just after each commit of a paid session": (
        "faults/test_kill_points.py::test_the_api_process_dies_at_each_commit_of_a_paid_session",
        "faults/test_kill_points.py::test_the_realtime_process_dies_around_a_batch_of_messages",
        "faults/test_kill_points.py::test_the_jobs_process_dies_at_each_timer",
    ),
    "Each process is killed (SIGKILL) at each step of a paid session": (
        "outages/test_outages.py::test_a_paid_session_survives_the_death_of_every_process_at_every_step",
        "outages/test_outages.py::test_a_payment_confirmed_by_a_process_that_died_at_that_moment_gets_its_session",
        "phones/test_many_devices.py::test_both_phones_show_what_the_database_has_whatever_dies_during_the_talk",
        "realtime/test_two_realtime.py::test_a_killed_process_loses_nothing_its_clients_go_on_at_the_other",
        "push/test_pushes.py::test_a_death_between_the_event_and_the_push_loses_nothing",
        "gateway/test_invoices.py::test_whoever_repeats_after_a_death_between_invoice_and_answer_gets_the_same_request",
        *(f"chaos: {kind}" for kind in KILLS),
        "load: talk",
    ),
    "PostgreSQL restarts": (
        "outages/test_outages.py::test_without_the_database_calls_say_so_and_afterwards_everything_goes_on",
        "chaos: postgres killed",
        "chaos: postgres stopped",
    ),
    "All connections to PostgreSQL are reset": (
        "faults/test_networks.py::test_when_all_connections_to_the_database_are_cut_nobody_notices",
        "chaos: postgres connections reset",
        "chaos: postgres refuses",
    ),
    "PostgreSQL is frozen (for 30 s in a run of two minutes or more)": (
        "faults/test_networks.py::test_while_the_database_is_not_heard_calls_say_so_and_then_all_goes_on",
        "faults/test_networks.py::test_a_phone_whose_question_was_not_answered_asks_again",
        "chaos: postgres hangs",
        "chaos: postgres hangs for one",
    ),
    "A process restarts repeatedly, runs late, refuses clients, or has no free database connection": (
        "flows/test_outage_records.py::test_silence_is_excused_for_a_bounded_time_unless_no_process_served",
        "flows/test_outage_records.py::test_a_process_that_restarts_all_the_time_keeps_a_silent_mitra_online_for_a_bounded_time",
        "flows/test_outage_records.py::test_silence_does_not_count_while_a_process_refuses_clients",
        "flows/test_outage_records.py::test_lease_is_renewed_while_every_other_connection_is_busy",
        "realtime/test_admission.py::test_probes_answer_and_upgrades_are_refused_when_files_run_out",
    ),
    "The database, the realtime processes or all processes are down for a minute; mitras with a live phone stay online": (
        "faults/test_presence.py::test_live_mitras_stay_online_when_the_database_is_away_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_all_realtime_processes_are_dead_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_when_one_realtime_process_is_cut_off_from_the_database",
        "faults/test_presence.py::test_live_mitras_stay_online_when_every_process_is_dead_for_a_minute",
        "faults/test_presence.py::test_live_mitras_stay_online_while_slow_processes_serve_a_thousand_sockets_that_come_back",
        "faults/test_presence.py::test_a_silent_mitra_is_taken_offline_in_time_though_a_channel_of_others_is_away",
        "chaos: postgres hangs",
    ),
    "The reply to a COMMIT is lost": (
        "faults/test_lost_answers.py::test_a_payment_request_whose_answer_was_lost_is_made_once",
        "faults/test_lost_answers.py::test_a_gateways_call_whose_effect_was_not_told_is_a_duplicate_when_it_comes_again",
        "faults/test_lost_answers.py::test_a_winner_who_was_not_told_so_asks_again_and_has_won",
        "faults/test_lost_answers.py::test_a_refresh_whose_answer_was_lost_gives_the_same_successor_again",
        "faults/test_lost_answers.py::test_a_batch_of_messages_whose_answer_was_lost_is_stored_once",
        "faults/test_lost_answers.py::test_a_message_over_rest_whose_answer_was_lost_is_stored_once",
        "chaos: postgres answers lost",
    ),
    "Redis is flushed or restarts": (
        "outages/test_outages.py::test_without_redis_events_and_messages_still_arrive_on_every_process",
        "chaos: redis flushed",
        "chaos: redis killed",
    ),
    "Redis is frozen, or unreachable for 0.6 s or longer": (
        "faults/test_networks.py::test_without_redis_for_a_while_every_event_and_message_arrives_once",
        "chaos: redis hangs",
        "chaos: redis refuses",
        "chaos: redis refuses for long",
    ),
    "Redis is replaced or frozen behind a proxy that keeps its clients connected": (
        "faults/test_bus_links.py::test_subscription_lost_behind_a_proxy_that_keeps_the_connection_is_renewed",
        "faults/test_bus_links.py::test_subscription_to_a_server_frozen_behind_a_proxy_is_renewed",
    ),
    "A client never reads from its socket": (
        "realtime/test_messages.py::test_a_reader_who_reads_nothing_is_cut_off_and_harms_nobody",
    ),
    "Phones lose the network": (
        "phones/test_many_devices.py::test_both_phones_show_what_the_database_has_whatever_dies_during_the_talk",
        "chaos: phones lose the network",
    ),
    "The clock of a machine jumps": (
        "faults/test_frozen.py::test_the_service_clock_follows_the_databases_and_no_other",
        "rules/test_service_clock.py::test_taking_over_the_databases_clock_tells_how_far_off_this_one_was",
    ),
    "Webhooks arrive twice at the same time, out of order, or late": (
        "api/test_webhook.py::test_fifty_concurrent_identical_calls_confirm_once",
        "races/test_races.py::test_a_webhook_doubled_at_once_confirms_once",
        "chaos: kill api",
    ),
    "Some of two or five jobs processes are suspended": (
        "jobs/test_deadlines.py::test_two_jobs_processes_do_each_thing_once_and_one_goes_on_without_the_other",
        "faults/test_frozen.py::test_of_five_jobs_processes_three_are_paused_and_each_deadline_has_one_effect",
        "faults/test_frozen.py::test_a_jobs_process_that_is_paused_within_a_transaction_holds_the_others_up_for_some_seconds_only",
        "chaos: freeze jobs",
    ),
    "Api and realtime processes are suspended": (
        "faults/test_frozen.py::test_a_frozen_api_process_costs_its_clients_time_and_nothing_else",
        "faults/test_frozen.py::test_a_frozen_realtime_process_loses_nothing",
        "chaos: freeze api",
        "chaos: freeze realtime",
    ),
    "1,000 mitras accept one request at the same time": (
        "races/test_races.py::test_thirty_mitras_accept_one_request_and_one_wins",
        "load: mitras",
    ),
    "The same payment request is created 50 times at the same time": (
        "api/test_payments_api.py::test_fifty_concurrent_requests_leave_one_pending",
        "races/test_races.py::test_requests_made_at_once_leave_one_pending",
    ),
    "An accept races with a cancel, a timeout, going offline, or a fallback to a blast": (
        "races/test_races.py::test_accept_against_cancel_has_one_outcome",
        "races/test_races.py::test_accept_against_the_end_of_the_search_has_one_outcome",
        "races/test_races.py::test_accept_against_going_offline_leaves_no_open_request",
        "pairing/test_fallback.py::test_fallback_against_an_accept_has_one_outcome",
    ),
    "The answer to an extension races with its timeout and with the session's end": (
        "extensions/test_extension_races.py",
    ),
    "One token is refreshed 50 times at the same time": (
        "api/test_accounts.py::test_fifty_concurrent_refreshes_return_the_same_successor",
    ),
    "10,000 sockets drop at the same time and reconnect": ("load: sockets",),
    "A process gets SIGTERM under load": (
        "outages/test_outages.py::test_sigterm_ends_each_process_orderly",
        "chaos: term api",
        "chaos: term realtime",
        "chaos: term jobs",
    ),
    "`webhook_logs` is not writable, and the disk of the fallback file is full": (
        "faults/test_networks.py::test_a_call_of_the_gateway_counts_though_neither_the_log_nor_the_file_takes_it",
        "gateway/test_fallback_file.py::test_a_sink_that_is_off_or_has_no_room_says_so",
        "gateway/test_fallback_file.py::test_a_disk_that_hangs_does_not_hold_the_reply",
        "gateway/test_fallback_file.py::test_calls_that_had_no_effect_have_it_once_when_they_come_in",
    ),
}


def missing() -> list[str]:
    """Return the proofs that do not exist, and the chaos faults that no row names."""
    found = [proof for proofs in FAULTS.values() for proof in proofs if not _exists(proof)]
    named = {proof.removeprefix("chaos: ") for proofs in FAULTS.values() for proof in proofs}
    return [*found, *(kind for kind in KINDS if kind not in named)]


def _exists(proof: str) -> bool:
    what, colon, name = proof.partition(": ")
    if colon:
        return name in (KINDS if what == "chaos" else LOADS)
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
