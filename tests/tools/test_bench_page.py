"""docs/bench.md: the page and its charts are made from the results, and results of later runs replace earlier ones."""

import itertools
import json
import math
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tools import cli
from tools.bench import charts, main, page, results, svg
from tools.bench.benches import BENCHES
from tools.bench.chat_loads import ALWAYS
from tools.bench.figures import Goal, Outcome, outcomes_of
from tools.bench.meanings import MEANINGS
from tools.bench.peers.colocated import KINDS
from tools.bench.rates import OFFERED
from tools.bench.results import Results
from tools.bench.sockets import COUNTS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "bench.md"
SVG = "{http://www.w3.org/2000/svg}"
POSITIVE = st.floats(min_value=1e-3, max_value=1e6)


def outcome(name: str, *runs: dict[str, float], commit: str = "abc") -> Outcome:
    machine = {"processor": "2 x A", "commit": commit}
    return Outcome(name=name, load="some load", goals=(), machine=machine, measured_on="2026-11-26", runs=[*runs])


CHAT = {
    "stored/s": 30_000.0, "CPU s per 1,000": 0.05, "ws: stored/s": 5_000.0, "ws: CPU s per 1,000": 0.3,
    "stored/s: ratio to ws": 6.0, **{goal.figure: 0.0 for goal in ALWAYS},
}  # fmt: skip
CURVE = {
    f"{before}{figure} at {rate:,}/s": 1.0 + number
    for before in ("", "ws: ")
    for number, (figure, rate) in enumerate(
        itertools.product(("delivered p50 ms", "delivered p99 ms", "CPU s per 1,000"), OFFERED)
    )
    if not before or rate <= 3_700
}
IDLE = {
    f"{before}{figure}, {count:,} sockets": 8.0
    for before in ("", "ws: ")
    for figure in ("KiB a socket", "hub CPU ms/s")
    for count in COUNTS
}


def some_results(**chat: float) -> Results:
    some = (outcome("chat-a", {**CHAT, **chat}), outcome("curve", CURVE), outcome("idle", IDLE))
    return Results(outcomes={one.name: one for one in some})


def made(folder: pathlib.Path, found: Results) -> str:
    page.write(folder / "bench.md", found)
    return (folder / "bench.md").read_text()


def test_page_and_charts_in_the_repository_are_those_of_the_results(tmp_path: pathlib.Path) -> None:
    found = Results.read(PAGE)
    assert made(tmp_path, found) == PAGE.read_text(), "run `sesi bench --page docs/bench.md --remake`"
    ours, theirs = results.folder_of(tmp_path / "bench.md"), results.folder_of(PAGE)
    images = sorted(path.name for path in ours.glob("*.svg"))
    assert images == sorted(path.name for path in theirs.glob("*.svg"))
    for name in images:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


def test_results_that_were_written_are_read_again(tmp_path: pathlib.Path) -> None:
    found = some_results()
    found.abuse = {"machine": {"processor": "2 x A", "commit": "abc"}, "phases": [], "missed": []}
    found.write(tmp_path / "bench.md")
    assert Results.read(tmp_path / "bench.md") == found
    assert Results.read(tmp_path / "nowhere" / "bench.md") == Results()


def test_later_runs_replace_those_of_the_same_benchmark_and_keep_the_others(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "bench.md"
    some_results().write(target)
    main._keep([outcome("idle", {**IDLE, "connects/s": 1.0}, commit="def")], main.BenchWish(page=target))
    found = Results.read(target)
    assert found.outcomes["idle"].machine["commit"] == "def"
    assert found.outcomes["chat-a"] == some_results().outcomes["chat-a"]
    text = target.read_text()
    assert "- processor: 2 x A" in text
    assert "some load; 1 run, 2026-11-26, commit def." in text
    assert "some load; 1 run, 2026-11-26, commit abc." in text


def test_page_can_be_remade_without_measuring(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "bench.md"
    some_results().write(target)
    assert main.bench(main.BenchWish(page=target, remake=True), Console(quiet=True)) == 0
    assert target.read_text() == made(tmp_path, some_results())


def test_summary_names_each_goal_with_its_verdict(tmp_path: pathlib.Path) -> None:
    text = made(tmp_path, some_results(**{"stored/s: ratio to ws": 4.9}))
    row = "| [chat-a](#chat-a) | stored/s: ratio to ws | throughput, compared with Node's `ws` and `pg` | ≥ 5 | 4.90 | **missed** |"
    assert row in text
    assert "| CPU s per 1,000 | 20,000 chats at once at this price keep 0.050 cores busy | ≤ 0.04 |" in text
    assert "3 of 7 goals are missed." in text


def test_page_says_how_many_runs_its_medians_have(tmp_path: pathlib.Path) -> None:
    found = some_results()
    assert "Each figure is that of one run." in made(tmp_path, found)
    found.outcomes["chat-a"].runs += [CHAT, CHAT]
    assert "Each figure is the median of 1 to 3 runs." in made(tmp_path, found)
    for one in found.outcomes.values():
        one.runs = one.runs[:1] * 5
    assert "Each figure is the median of 5 runs." in made(tmp_path, found)


def test_median_of_two_runs_lies_between_them_and_can_miss_a_goal(tmp_path: pathlib.Path) -> None:
    found = some_results()
    found.outcomes["chat-a"].runs += [{**CHAT, "stored/s: ratio to ws": 3.0}]
    assert "| stored/s: ratio to ws | 3 | **4.50** | 6 | ≥ 5 | **missed** |" in made(tmp_path, found)
    found.outcomes["chat-a"].runs += [{**CHAT, "stored/s: ratio to ws": 7.0}]
    assert "| stored/s: ratio to ws | 3 | **6** | 7 | ≥ 5 | met |" in made(tmp_path, found)


@pytest.mark.parametrize("figure", [goal.figure for goal in ALWAYS])
def test_one_lost_or_disordered_message_in_any_run_is_told_first(figure: str, tmp_path: pathlib.Path) -> None:
    good = some_results()
    assert "all acknowledged messages were stored" in made(tmp_path, good)
    good.outcomes["chat-a"].runs += [{**CHAT, figure: 1.0}, CHAT]  # the median is still 0
    assert f"**Missed:** chat-a: {figure} 1." in made(tmp_path, good)


def test_goals_are_those_of_the_code_and_not_those_of_earlier_results(tmp_path: pathlib.Path) -> None:
    found = some_results()
    found.outcomes["chat-a"].goals = (Goal(figure="stored/s", at_least=1),)
    assert made(tmp_path, found) == made(tmp_path, some_results())


def test_benchmark_without_results_has_a_section_for_links_to_it(tmp_path: pathlib.Path) -> None:
    text = made(tmp_path, some_results())
    for one in BENCHES:
        assert (f"\n### {one.name}\n" in text) == one.in_all
    assert text.count("; not measured yet.") == sum(one.in_all for one in BENCHES) - 3


def test_charts_are_drawn_only_of_loads_with_results() -> None:
    chat, curve, idle = ({name: figures} for name, figures in (("chat-a", CHAT), ("curve", CURVE), ("idle", IDLE)))
    assert [one.name for one in charts.charts(chat | curve | idle)] == ["peers", "latency", "cost", "sockets"]
    assert [one.name for one in charts.charts(curve)] == ["latency", "cost"]
    assert charts.charts({"chat-a": {"stored/s": 1.0, "CPU s per 1,000": 1.0}}) == []  # measured without peers
    assert charts.charts({}) == []


def test_every_chart_is_well_formed_and_says_its_figures_as_text() -> None:
    for chart in charts.charts({"chat-a": CHAT, "curve": CURVE, "idle": IDLE}):
        root = ET.fromstring(chart.image)
        assert root.find(f"{SVG}title").text == chart.alt  # type: ignore[union-attr]
        assert re.search(r"Sesi[^;]*: |Sesi 30,000", chart.alt)
        assert "]" not in chart.alt  # it stands between brackets in the page
        texts = {"".join(one.itertext()) for one in root.iter(f"{SVG}text")}
        assert {"Sesi", "ws"} & texts or {"Sesi p99", "ws p99", "Sesi p50", "ws p50"} <= texts
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        for one in root.iter(f"{SVG}text"):
            assert 0 <= float(one.attrib["x"]) <= width
            assert 0 <= float(one.attrib["y"]) <= height
        assert len(chart.image) < 12_000


def test_line_of_a_peer_ends_where_it_did_not_keep_up() -> None:
    (latency,) = (one for one in charts.charts({"curve": CURVE}) if one.name == "latency")
    counts = [len(one.attrib["points"].split()) for one in ET.fromstring(latency.image).iter(f"{SVG}polyline")]
    assert sorted(counts, reverse=True)[:4] == [5, 5, 3, 3]


@given(st.lists(POSITIVE, min_size=1, max_size=9))
def test_axes_contain_all_values_and_have_few_ticks(values: list[float]) -> None:
    for axis in (svg.linear("x", values), svg.logarithmic("x", values)):
        assert all(-1e-3 <= axis.share(value) <= 1 + 1e-3 for value in values)
        assert all(one < other for one, other in itertools.pairwise(axis.ticks))
        assert math.isclose(axis.share(axis.ticks[0]), 0, abs_tol=1e-9)
        assert math.isclose(axis.share(axis.ticks[-1]), 1)
    assert 2 <= len(svg.linear("x", values).ticks) <= svg.FEW_TICKS + 1


def test_every_goal_of_the_page_has_a_meaning_and_ratios_are_of_declared_peers() -> None:
    goals = {(one.name, goal.figure) for one in BENCHES for goal in one.goals}
    assert MEANINGS.keys() - goals - {("soak", "realtime growth %")} == set()
    told = {(one.name, goal.figure) for one in BENCHES if one.in_all for goal in one.goals if goal not in ALWAYS}
    assert told <= MEANINGS.keys()
    for one in BENCHES:
        assert set(one.peers) <= KINDS.keys()
        assert (one.run_peer is not None) >= bool(one.peers)
        names = {KINDS[key].name for key in one.peers}
        ratios = {goal.figure for goal in one.goals if ": ratio to " in goal.figure}
        assert ratios <= {f"{figure}: ratio to {name}" for figure in one.ratios for name in names}


def test_results_in_the_repository_are_of_present_benchmarks() -> None:
    data = json.loads((results.folder_of(PAGE) / results.NAME).read_text())
    assert {one.name for one in outcomes_of(data)} <= {one.name for one in BENCHES}


def test_remake_without_a_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--remake"]) == 1
    assert "--remake: expected --page FILE" in capsys.readouterr().err
