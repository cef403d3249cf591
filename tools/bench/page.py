"""docs/bench.md: the page and its charts, made from the results and the text of page.txt."""

import pathlib
import string
from collections.abc import Iterable, Iterator

import attrs

from tools.bench.abuse import report
from tools.bench.benches import BENCHES
from tools.bench.charts import Chart, charts
from tools.bench.chat_loads import ALWAYS
from tools.bench.figures import Goal, Outcome, number
from tools.bench.meanings import MEANINGS
from tools.bench.results import FOLDER, Results, folder_of

TEMPLATE = pathlib.Path(__file__).with_name("page.txt")


def write(page: pathlib.Path, results: Results) -> None:
    """Write the page and its charts next to it."""
    known = _with_present_goals(results)
    medians = {
        outcome.name: {figure: values.median for figure, values in outcome.figures().items()} for outcome in known
    }
    made = charts(medians)
    folder_of(page).mkdir(parents=True, exist_ok=True)
    for chart in made:
        (folder_of(page) / f"{chart.name}.svg").write_text(chart.image)
    page.write_text(text(known, made, results))


def _with_present_goals(results: Results) -> list[Outcome]:
    """Return the outcomes of the present benchmarks in their order, with the goals that they have now."""
    return [
        attrs.evolve(outcome, goals=bench.goals)
        for bench in BENCHES
        if (outcome := results.outcomes.get(bench.name)) is not None
    ]


def text(outcomes: list[Outcome], made: list[Chart], results: Results) -> str:
    """Return the page."""
    shared = _shared(outcomes)
    return string.Template(TEMPLATE.read_text()).substitute(
        charts="\n\n".join(f"![{chart.alt}]({FOLDER / chart.name}.svg)\n\n{chart.caption}" for chart in made),
        runs=_runs(outcomes),
        proof=_proof(outcomes),
        summary="\n".join(_summary(outcomes)),
        missed=_missed(outcomes),
        machine="\n".join(f"- {name}: {value}" for name, value in shared.items()),
        details="\n\n".join(_all_details(outcomes, shared)),
        abuse="Not measured yet." if results.abuse is None else report.section(results.abuse),
    )


def _shared(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return what is true of the machine in all outcomes."""
    machines = [outcome.machine for outcome in outcomes]
    return {
        name: value
        for name, value in (machines[0] if machines else {}).items()
        if all(machine.get(name) == value for machine in machines)
    }


def _runs(outcomes: list[Outcome]) -> str:
    """Return a sentence about how many runs the medians have."""
    counts = [len(outcome.runs) for outcome in outcomes]
    least, most = min(counts, default=0), max(counts, default=0)
    if most <= 1:
        return "Each figure is that of one run."
    return f"Each figure is the median of {most if least == most else f'{least} to {most}'} runs."


def _proof(outcomes: list[Outcome]) -> str:
    """Return a sentence about lost and disordered messages."""
    chats = [outcome for outcome in outcomes if any(goal in outcome.goals for goal in ALWAYS)]
    bad = [
        f"{outcome.name}: {goal.figure} {number(max(run[goal.figure] for run in outcome.runs))}"
        for outcome in chats
        for goal in ALWAYS
        if any(run[goal.figure] > 0 for run in outcome.runs)
    ]
    if bad:
        return f"**Missed:** {'; '.join(bad)}."
    return (
        f"In every run of the chats ({sum(len(outcome.runs) for outcome in chats)}), all acknowledged messages were stored, "
        "and each conversation arrived in order."
    )


def _verdict(goal: Goal | None, value: float) -> str:
    return "" if goal is None else "met" if goal.met(value) else "**missed**"


def _summary(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the rows of all goals, but for those that `_proof` tells."""
    yield "| load | figure | what it means | goal | measured | |"
    yield "|---|---|---|---|---|---|"
    for outcome in outcomes:
        found = outcome.figures()
        for goal in outcome.goals:
            if goal in ALWAYS or goal.figure not in found:
                continue
            value = found[goal.figure].median
            meaning = MEANINGS.get((outcome.name, goal.figure), lambda _, load=outcome.load: load)
            yield (
                f"| [{outcome.name}](#{outcome.name}) | {goal.figure} | {meaning(value)} | {goal.text} | {number(value)} "
                f"| {_verdict(goal, value)} |"
            )


def _missed(outcomes: list[Outcome]) -> str:
    missed = sum(len(outcome.missed()) for outcome in outcomes)
    goals = sum(goal.figure in outcome.figures() for outcome in outcomes for goal in outcome.goals)
    return f"{missed} of {goals} goals are missed." if missed else f"All {goals} goals are met."


def _all_details(outcomes: list[Outcome], shared: dict[str, str]) -> Iterator[str]:
    """Yield the section of each benchmark. Other pages link to them, so one without results has a section too."""
    found = {outcome.name: outcome for outcome in outcomes}
    for bench in BENCHES:
        if bench.name in found:
            yield "\n".join(_details(found[bench.name], shared))
        elif bench.in_all:
            yield f"### {bench.name}\n\n{bench.load}; not measured yet."


def _details(outcome: Outcome, shared: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the section of one benchmark."""
    count = len(outcome.runs)
    own = [f"{name} {value}" for name, value in outcome.machine.items() if name not in shared]
    yield f"### {outcome.name}"
    yield ""
    yield f"{outcome.load}; {count} run{'s' if count != 1 else ''}, {', '.join([outcome.measured_on, *own])}."
    yield ""
    yield "| figure | min | median | max | goal | |"
    yield "|---|---|---|---|---|---|"
    for figure, values in outcome.figures().items():
        goal = outcome.goal_of(figure)
        yield (
            f"| {figure} | {number(values.least)} | **{number(values.median)}** | {number(values.most)} "
            f"| {'' if goal is None else goal.text} | {_verdict(goal, values.median)} |"
        )
