"""docs/bench.md: it has all goals of the benchmarks, and a run replaces the figures of the benchmarks that it measured."""

import pathlib
import re

import attrs
import pytest

from tools import cli
from tools.bench import page
from tools.bench.benches import BENCHES
from tools.bench.chat_loads import ALWAYS
from tools.bench.figures import Goal, Outcome
from tools.bench.peers.colocated import KINDS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "bench.md"
SMALL = """# Benchmarks

| load | figure | what it means | goal | measured | |
|---|---|---|---|---|---|
| [idle](#idle) | connects/s | phones are back | ≥ 1 | 2 | met |
| [soak](#soak) | connects/s | another load | ≥ 1 | 2 | met |

### idle

An earlier run.

### soak

It stays.

## Other text
"""
IDLE = Outcome(
    name="idle",
    load="some load",
    goals=(Goal(figure="connects/s", at_least=2_000), Goal(figure="not measured", at_most=1)),
    machine={"processor": "2 x A", "commit": "abc", "memory": "24 GiB"},
    measured_on="2026-11-26",
    runs=[{"connects/s": 1_000.0}, {"connects/s": 2_500.0}, {"connects/s": 3_000.0}],
)


@pytest.fixture
def small(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a page with two benchmarks."""
    path = tmp_path / "bench.md"
    path.write_text(SMALL)
    return path


def test_figures_of_a_run_replace_those_of_the_same_benchmark_and_nothing_else(small: pathlib.Path) -> None:
    page.write(small, [IDLE])
    text = small.read_text()
    assert "| [idle](#idle) | connects/s | phones are back | ≥ 2,000 | 2,500 | met |" in text
    assert "### idle\n\nsome load; 3 runs, 2026-11-26, processor 2 x A, commit abc.\n" in text
    assert "| connects/s | 1,000 | **2,500** | 3,000 | ≥ 2,000 | met |" in text
    assert "An earlier run" not in text
    rest = SMALL[SMALL.index("### soak") :]
    assert text.endswith(rest)
    assert "| [soak](#soak) | connects/s | another load | ≥ 1 | 2 | met |" in text
    page.write(small, [IDLE])
    assert small.read_text() == text


def test_missed_goal_is_marked_in_the_summary_and_in_the_section(small: pathlib.Path) -> None:
    page.write(small, [attrs.evolve(IDLE, runs=[{"connects/s": 1_000.0}])])
    assert small.read_text().count("| ≥ 2,000 | 1,000 | **missed** |") == 1
    assert "| connects/s | 1,000 | **1,000** | 1,000 | ≥ 2,000 | **missed** |" in small.read_text()


@pytest.mark.parametrize("goal", ALWAYS, ids=lambda goal: goal.figure)
def test_one_lost_or_disordered_message_in_any_run_misses_the_goal(goal: Goal, small: pathlib.Path) -> None:
    runs = [{goal.figure: 0.0}, {goal.figure: 1.0}, {goal.figure: 0.0}]
    lossy = attrs.evolve(IDLE, goals=(goal,), runs=runs)
    assert lossy.missed() == [f"idle: {goal.figure} 1, must be ≤ 0"]
    page.write(small, [lossy])
    assert f"| {goal.figure} | 0 | **0** | 1 | ≤ 0 | **missed** |" in small.read_text()


def test_benchmark_without_a_section_is_left_out(small: pathlib.Path) -> None:
    page.write(small, [attrs.evolve(IDLE, name="connects")])
    assert small.read_text() == SMALL


def test_page_has_a_section_of_each_benchmark_and_a_row_of_each_goal() -> None:
    text = PAGE.read_text()
    rows = re.findall(
        r"^\| \[(.+)\]\(#.+\) \| (.+?) \| .+ \| (\S+ \S+) \| \S+ \| (?:met|\*\*missed\*\*) \|$", text, re.M
    )
    goals = [(one.name, goal) for one in BENCHES if one.in_all for goal in one.goals if goal not in ALWAYS]
    assert rows == [(name, goal.figure, goal.text) for name, goal in goals]
    for one in BENCHES:
        assert (f"\n### {one.name}\n" in text) == one.in_all


def test_ratios_of_goals_are_of_declared_peers() -> None:
    for one in BENCHES:
        assert set(one.peers) <= KINDS.keys()
        assert (one.run_peer is not None) >= bool(one.peers)
        names = {KINDS[key].name for key in one.peers}
        ratios = {goal.figure for goal in one.goals if ": ratio to " in goal.figure}
        assert ratios <= {f"{figure}: ratio to {name}" for figure in one.ratios for name in names}


def test_page_that_does_not_exist_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--page", str(tmp_path / "no.md")]) == 1
    assert "no.md: file not found" in capsys.readouterr().err
