"""docs/bench.md: `sesi bench --page` writes the figures of the benchmarks that it has measured into the page."""

import pathlib
import re
from collections.abc import Iterator

from tools.bench.figures import Goal, Outcome, Spread, number


def write(page: pathlib.Path, outcomes: list[Outcome]) -> None:
    """Replace the section of each benchmark, and the last three columns of its rows in the summary.

    The rest of the page is written by hand. A benchmark without a section is left out.
    """
    text = page.read_text()
    for outcome in outcomes:
        section = re.compile(rf"^### {outcome.name}\n.*?(?=^##)", re.MULTILINE | re.DOTALL)
        text = section.sub("\n".join(_section(outcome)).replace("\\", r"\\") + "\n\n", text)
        for goal in outcome.goals:
            text = _summarized(text, outcome, goal)
    page.write_text(text)


def _summarized(text: str, outcome: Outcome, goal: Goal) -> str:
    """Return the page with a goal, its figure and its verdict in the summary."""
    figure = outcome.figures().get(goal.figure)
    if figure is None:
        return text
    begin = re.escape(f"| [{outcome.name}](#{outcome.name}) | {goal.figure} |")
    row = re.compile(rf"^({begin} [^|]* \|).*$", re.MULTILINE)
    return row.sub(rf"\1 {goal.text} | {number(figure.median)} | {_verdict(goal, figure)} |", text)


def _section(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of the section of one benchmark."""
    machine = ", ".join(f"{name} {value}" for name, value in outcome.machine.items() if name in ("processor", "commit"))
    runs = f"{len(outcome.runs)} run{'s' if len(outcome.runs) != 1 else ''}"
    yield from (f"### {outcome.name}", "", f"{outcome.load}; {runs}, {outcome.measured_on}, {machine}.", "")
    yield from ("| figure | min | median | max | goal | |", "|---|---|---|---|---|---|")
    for figure, values in outcome.figures().items():
        goal = outcome.goal_of(figure)
        yield (
            f"| {figure} | {number(values.least)} | **{number(values.median)}** | {number(values.most)} "
            f"| {'' if goal is None else goal.text} | {_verdict(goal, values)} |"
        )


def _verdict(goal: Goal | None, values: Spread) -> str:
    return "" if goal is None else "met" if goal.met(values) else "**missed**"
