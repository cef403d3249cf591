"""`sesi bench abuse`: the report, and a short run of each attack."""

import json

import asyncpg
import pytest
import uvloop

from core.settings.environment import read as read_settings
from tests.stack import Stack
from tools import cli
from tools.bench import names, running
from tools.bench.abuse import attacker, main, report
from tools.bench.abuse.payers import Payers, SeenByPayers
from tools.bench.abuse.report import CONTROL, QUIET, Phase

SHARE = 0.05


def phase(name: str, *, ack: float = 0.01, webhook: float = 0.05, probe: float = 0.01, failed: int = 0) -> Phase:
    seen = SeenByPayers(
        acks=[ack] * 9, webhooks=[webhook] * 9, probes=[probe] * 9, hub_probes=[probe] * 9, failed=failed
    )
    return Phase(name=name, seen=seen)


@pytest.mark.parametrize(
    ("attacked", "said"),
    [
        (phase("ping", ack=0.029), []),
        (phase("ping", ack=0.031), ["ping: ack p99 ms 31, must be at most 30"]),
        (phase("ping", webhook=0.501), ["ping: webhook p99 ms 501, must be at most 500"]),
        (phase("ping", failed=1), ["ping: failed 1, must be at most 0"]),
        (phase(CONTROL, ack=9, webhook=9, probe=9), []),
    ],
)
def test_missed_goal_is_named_with_its_limit(attacked: Phase, said: list[str]) -> None:
    assert report.missed([phase(QUIET), attacked, phase(QUIET)]) == said


def test_acknowledgements_above_100_ms_miss_the_goal_even_if_the_quiet_phase_is_slow() -> None:
    assert report.missed([phase(QUIET, ack=0.09), phase("ping", ack=0.11)])


def test_device_without_a_new_token_counts_as_refused() -> None:
    stormed = phase("refresh")
    stormed.devices = 10
    stormed.attackers = {"refresh": {"sent": 9, "answers": {"200": 8, "429": 1}, "cut_off": 1}}
    assert stormed.refused_refreshes() == 2
    assert report.missed([phase(QUIET), stormed]) == ["refresh: refreshes refused 2, must be at most 0"]


def test_quiet_phases_are_combined() -> None:
    together = report.quiet_of([phase(QUIET, ack=0.01), phase("ping", ack=9), phase(QUIET, ack=0.02)])
    assert sorted(together.seen.acks) == [0.01] * 9 + [0.02] * 9


def test_section_has_a_row_of_each_phase_and_all_missed_goals() -> None:
    slow = phase("ping", ack=0.031)
    slow.attackers = {"ping": {"sent": 9, "answers": {"4429": 8}, "cut_off": 1}}
    found = report.as_json([phase(QUIET), slow, phase("sync"), phase(QUIET)], {"processor": "2 x A", "commit": "abc"})
    lines = report.section(json.loads(json.dumps(found))).splitlines()
    assert lines[0].endswith("2 x A, at abc.")
    rows = [line for line in lines if line.startswith("|")][2:]
    assert [(row.split(" | ")[0], row.split(" | ")[-1]) for row in rows] == [
        ("| quiet", " |"), ("| ping", "**missed** |"), ("| sync", "met |"),
    ]  # fmt: skip
    assert "- ping: 9 sent (8 got 4429; 1 cut off)" in lines
    assert lines[-1] == "Missed: ping: ack p99 ms 31, must be at most 30."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["abuse", "idle"], "abuse: expected alone"),
        (["abuse", "--runs", "2"], "--runs: expected without `abuse`"),
        (["abuse", "--seconds", "600"], "--seconds: expected at most 120"),
        (["idle", "--attack", "ping"], "--attack: expected `sesi bench abuse`"),
    ],
)
def test_invalid_arguments_of_abuse_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_command_line_accepts_every_attack() -> None:
    assert tuple(attacker.ATTACKS) == names.ATTACKS


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("forked_service")
def test_each_attack_runs_while_paying_customers_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "WAL_FILES", 1)
    kinds = list(attacker.ATTACKS)
    asked = main.AbuseOptions(kinds=tuple(kinds), seconds=3, share=SHARE)
    service = running.start_service(template=Stack.template(), **main.default_limits())  # type: ignore[arg-type]

    async def play() -> Phase:
        connection = await asyncpg.connect(service.database_url)
        try:
            payers = Payers(service, connection, share=SHARE)
            await payers.begin()
            try:
                return await main._phase("all", kinds, asked, service, connection, payers)
            finally:
                payers.end()
        finally:
            await connection.close()

    try:
        found = uvloop.run(play())
    finally:
        service.close()
    done = found.attackers
    assert {kind for kind in kinds if done[kind]["sent"]} == set(kinds) - {CONTROL}
    assert set(done["webhook"]["answers"]) == {"401"}
    for kind in ("lists", "deep", "large"):
        assert set(done[kind]["answers"]) <= {"422", "413", "429"}, done[kind]
    assert found.refused_refreshes() == 0
    assert set(done["refresh"]["answers"]) <= {"200", "503"}  # a busy service is asked again
    assert found.seen.acks
    assert found.seen.webhooks
    assert found.seen.failed == 0
    assert found.rows >= done["sign-ups"]["answers"]["201"]
    json.dumps(report.as_json([found], {}))


def test_limits_of_the_attacks_equal_those_of_production() -> None:
    limits = main.default_limits()
    assert {"RATE_LIMIT_PER_MINUTE", "RATE_LIMIT_BURST", "WS_FRAMES_PER_SECOND"} <= set(limits)
    assert read_settings(limits) == read_settings({})
