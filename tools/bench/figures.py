"""Results of benchmarks: figures of several runs, their goals, and their tables and JSON."""

import statistics
from typing import Any

import attrs
from rich.table import Table


@attrs.frozen(kw_only=True)
class Goal:
    """The bound that the median of a figure must meet; with `in_every_run`, its largest value."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None
    in_every_run: bool = False

    def met(self, values: "Spread") -> bool:
        """Return whether a figure meets the goal."""
        value = values.most if self.in_every_run else values.median
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most

    @property
    def text(self) -> str:
        """Return the goal as text, such as "≤ 10"."""
        if self.at_least is not None:
            return f"≥ {self.at_least:,.6g}"
        assert self.at_most is not None
        return f"≤ {self.at_most:,.6g}"


@attrs.frozen(kw_only=True)
class Spread:
    """Minimum, median and maximum of a figure over the runs."""

    least: float
    median: float
    most: float


def spread(values: list[float]) -> Spread:
    """Return minimum, median and maximum. The median of an even number of values is the mean of the middle two."""
    return Spread(least=min(values), median=statistics.median(values), most=max(values))


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share (0 to 1) of the values lies; 0 if there are no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def number(value: float) -> str:
    """Return a figure as text, with its significant digits."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3 if value >= 0.1 else 4}f}"


@attrs.define(kw_only=True)
class Outcome:
    """The runs of one benchmark, and where and when they were measured."""

    name: str
    load: str
    goals: tuple[Goal, ...]
    machine: dict[str, str] = attrs.field(factory=dict)
    measured_on: str = ""  # date
    runs: list[dict[str, float]] = attrs.field(factory=list)

    def figures(self) -> dict[str, Spread]:
        """Return the spread of each figure over the runs, in the order of the first run."""
        return {figure: spread([run[figure] for run in self.runs if figure in run]) for figure in self.runs[0]}

    def goal_of(self, figure: str) -> Goal | None:
        """Return the goal of a figure, or None."""
        return next((goal for goal in self.goals if goal.figure == figure), None)

    def missed(self) -> list[str]:
        """Return the goals that the figures miss, one line of text each."""
        found = self.figures()
        return [
            f"{self.name}: {goal.figure} {number(values.most if goal.in_every_run else values.median)}, must be {goal.text}"
            for goal in self.goals
            if (values := found.get(goal.figure)) is not None and not goal.met(values)
        ]


def table(outcome: Outcome) -> Table:
    """Return the table to print."""
    made = Table(title=f"{outcome.name}: {outcome.load}", title_justify="left", title_style="bold")
    made.add_column("figure")
    for column in ("min", "median", "max", "goal", ""):
        made.add_column(column, justify="right")
    for figure, values in outcome.figures().items():
        goal = outcome.goal_of(figure)
        verdict = "" if goal is None else "met" if goal.met(values) else "[red]missed[/]"
        made.add_row(
            figure,
            *(number(value) for value in (values.least, values.median, values.most)),
            "" if goal is None else goal.text,
            verdict,
        )
    return made


def as_json(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return all results as JSON data."""
    return {
        "benches": {
            outcome.name: {
                "load": outcome.load,
                "goals": [attrs.asdict(goal) for goal in outcome.goals],
                "machine": outcome.machine,
                "measured_on": outcome.measured_on,
                "runs": outcome.runs,
            }
            for outcome in outcomes
        },
    }


def outcomes_of(data: dict[str, Any]) -> list[Outcome]:
    """Return the outcomes in what `as_json` made. Raises KeyError or TypeError for anything else."""
    return [
        Outcome(
            name=name,
            load=bench["load"],
            goals=tuple(Goal(**goal) for goal in bench["goals"]),
            machine=bench["machine"],
            measured_on=bench["measured_on"],
            runs=bench["runs"],
        )
        for name, bench in data["benches"].items()
    ]


def compared(now: list[Outcome], before: list[Outcome]) -> Table:
    """Return a table of the medians of two sets of results and their ratios."""
    made = Table(title="compared", title_justify="left")
    for column in ("bench", "figure", "before", "now", "ratio"):
        made.add_column(column, justify="left" if column in ("bench", "figure") else "right")
    old = {outcome.name: outcome.figures() for outcome in before}
    for outcome in now:
        for figure, values in outcome.figures().items():
            was = old.get(outcome.name, {}).get(figure)
            if was is not None:
                ratio = f"{values.median / was.median:.2f}" if was.median else ""
                made.add_row(outcome.name, figure, number(was.median), number(values.median), ratio)
    return made
