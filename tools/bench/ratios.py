"""What two trees' figures, measured in turn, say about each other. Pure."""

import enum
import math
import statistics

import attrs

WITHIN = 0.05
ABOUT_THE_MACHINE = frozenset({"yardstick ms"})  # the same work for both: it shows how even the machine was


class Verdict(enum.StrEnum):
    """What the pairs of a figure show. BETTER and WORSE are about the present tree."""

    WITHIN = "within 5 %"
    BETTER = "better"
    WORSE = "worse"


@attrs.frozen(kw_only=True)
class Ratios:
    """The ratios, present tree to revision, of one figure: one for each pair of runs."""

    figure: str
    values: tuple[float, ...]

    @property
    def least(self) -> float:
        """The smallest ratio."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The middle ratio; of an even number the mean of the two in the middle."""
        return statistics.median(self.values)

    @property
    def most(self) -> float:
        """The largest ratio."""
        return max(self.values)

    @property
    def verdict(self) -> Verdict:
        """Return whether the figure changed.

        It did not when the median is within 5 % of 1, or 1 lies between the smallest and the largest ratio: of five
        ratios of equal trees, all are on one side of 1 only once in 16 times.
        """
        if abs(self.median - 1) <= WITHIN or self.least <= 1 <= self.most:
            return Verdict.WITHIN
        return Verdict.BETTER if (self.median > 1) == higher_is_better(self.figure) else Verdict.WORSE


def higher_is_better(figure: str) -> bool:
    """Return whether a larger figure is the better one: a rate, but not a time at a rate."""
    return figure.endswith("/s") and " ms" not in figure


def ratio(now: float, before: float) -> float:
    """Return `now` to `before`; 1 when neither is above 0, infinite when only `now` is."""
    now, before = max(0.0, now), max(0.0, before)
    if now == before:
        return 1.0
    return now / before if before else math.inf


def ratios(now: list[dict[str, float]], before: list[dict[str, float]]) -> list[Ratios]:
    """Return the ratios of each figure that every run of both has, in the order of the first run."""
    if not now or not before:
        return []
    runs = [*now, *before]
    return [
        Ratios(figure=figure, values=tuple(ratio(a[figure], b[figure]) for a, b in zip(now, before, strict=True)))
        for figure in now[0]
        if all(figure in run for run in runs)
    ]
