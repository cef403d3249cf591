"""`sesi bench --compare`: the meaning of ratios, and one real pair of runs."""

import json
import math
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tools import cli
from tools.bench import compare, names, ratios, revision, running
from tools.bench.benches import BENCHES
from tools.bench.ratios import Ratios, RatioVerdict

RATES = st.floats(min_value=0.01, max_value=1e6)
SEVERAL = st.lists(st.floats(min_value=0.1, max_value=10), min_size=1, max_size=9)


@given(RATES, RATES)
def test_ratio_of_swapped_figures_is_the_inverse(one: float, other: float) -> None:
    assert math.isclose(ratios.ratio(one, other) * ratios.ratio(other, one), 1)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [(0, 0, 1), (-3, 0, 1), (0, -3, 1), (2, 0, math.inf), (2, -1, math.inf), (0, 2, 0), (3, 2, 1.5)],
)
def test_ratio_of_figures_at_or_below_zero_is_defined(now: float, before: float, expected: float) -> None:
    assert ratios.ratio(now, before) == expected


@given(SEVERAL)
def test_median_lies_between_the_smallest_and_the_largest_ratio(values: list[float]) -> None:
    found = Ratios(figure="x", values=tuple(values))
    assert found.least <= found.median <= found.most


@given(SEVERAL)
def test_verdict_is_within_if_the_median_is_near_or_the_spread_includes_one(values: list[float]) -> None:
    found = Ratios(figure="p99 ms", values=tuple(values))
    within = abs(found.median - 1) <= 0.05 or min(values) <= 1 <= max(values)
    assert (found.verdict is RatioVerdict.WITHIN) == within


@given(SEVERAL)
def test_verdict_of_a_rate_is_the_opposite_of_that_of_a_time(values: list[float]) -> None:
    opposite = {
        RatioVerdict.BETTER: RatioVerdict.WORSE,
        RatioVerdict.WORSE: RatioVerdict.BETTER,
        RatioVerdict.WITHIN: RatioVerdict.WITHIN,
    }
    rate, time = (Ratios(figure=figure, values=tuple(values)).verdict for figure in ("stored/s", "ack p99 ms"))
    assert rate is opposite[time]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.2, 1.3, 1.25, 1.22, 1.4), RatioVerdict.WORSE),
        ((1.2, 1.3, 0.99, 1.22, 1.4), RatioVerdict.WITHIN),
        ((1.01, 1.04, 1.02, 1.04, 1.4), RatioVerdict.WITHIN),
        ((0.8, 0.9, 0.7, 0.94, 0.6), RatioVerdict.BETTER),
    ],
)
def test_verdict_of_five_pairs(values: tuple[float, ...], verdict: RatioVerdict) -> None:
    assert Ratios(figure="delivered p99 ms at 200/s", values=values).verdict is verdict


def test_figure_missing_in_one_run_has_no_ratio() -> None:
    now = [{"stored/s": 2.0, "new": 1.0}, {"stored/s": 4.0, "new": 1.0}]
    before = [{"stored/s": 1.0, "old": 1.0}, {"stored/s": 1.0, "old": 1.0}]
    assert ratios.ratios(now, before) == [Ratios(figure="stored/s", values=(2.0, 4.0))]
    assert ratios.ratios([], before) == []


def test_duration_at_a_rate_counts_as_a_duration() -> None:
    rates = {
        figure for figure in ("stored/s", "delivered p99 ms at 200/s", "answers/s") if ratios.higher_is_better(figure)
    }
    assert rates == {"stored/s", "answers/s"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compare", "no-such-revision"], "no-such-revision: unknown git revision"),
        (["--compare", "--help-me"], None),
        (["--compare", "HEAD", "--runs", "2"], "--runs: expected without --compare"),
        (["--compare", "HEAD", "--page", "x.md"], "--page: expected without --compare"),
        (["--compare", "HEAD", "--json", "/no/such/folder/x.json"], "its directory does not exist"),
        (["--pairs", "2"], "--pairs: expected --compare REV"),
        (["--baseline", "/no/such/file"], "file not found"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_starts(
    arguments: list[str], said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if said is None:
        with pytest.raises(SystemExit):
            cli.main(["bench", *arguments])
    else:
        assert cli.main(["bench", *arguments]) == 1
        assert said in capsys.readouterr().err


def test_every_load_of_a_comparison_is_a_benchmark() -> None:
    assert set(compare.LOADS) <= {one.name for one in BENCHES} <= set(names.NAMES)


@pytest.mark.timeout(300)  # two complete services
@pytest.mark.usefixtures("forked_service")
def test_head_and_working_tree_are_measured_alternately(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "WAL_FILES", 1)
    found = tmp_path / "found.json"
    asked = compare.CompareOptions(rev="HEAD", names=("quiet-1000",), pairs=1, seconds=0.5, json=found)
    compare.compare(asked, Console(quiet=True))
    measured = json.loads(found.read_text())
    assert measured["revision"]["commit"] == revision.find("HEAD")
    load = measured["loads"]["quiet-1000"]
    assert load["generator"] == compare.OURS
    assert len(load["now"]) == len(load["before"]) == 1
    assert load["ratios"]["CPU s per 1,000"]["median"] == pytest.approx(
        load["now"][0]["CPU s per 1,000"] / load["before"][0]["CPU s per 1,000"]
    )
    assert load["ratios"]["yardstick ms"]["verdict"] is None


def test_worktree_is_removed_after_its_comparison() -> None:
    made = revision.check_out("HEAD", lambda _: None)
    folder = made.code.folder
    assert folder is not None
    assert (folder / "tools" / "cli.py").is_file()
    made.close()
    assert not folder.parent.exists()
    assert str(folder) not in revision._git("worktree", "list").stdout
