"""Comparison of the figures of two trees that were measured in turn. Pure functions."""

import enum
import math
import statistics

import attrs

WITHIN = 0.05
ABOUT_THE_MACHINE = frozenset({"yardstick ms"})  # the same work for both trees; shows how steady the machine was


class RatioVerdict(enum.StrEnum):
    """The result for a figure. BETTER and WORSE are about the present tree."""

    WITHIN = "within 5 %"
    BETTER = "better"
    WORSE = "worse"


@attrs.frozen(kw_only=True)
class Ratios:
    """The ratios of one figure, present tree to revision, one for each pair of runs."""

    figure: str
    values: tuple[float, ...]

    @property
    def least(self) -> float:
        """Return the smallest ratio."""
        return min(self.values)

    @property
    def median(self) -> float:
        """Return the median ratio; of an even number, the mean of the middle two."""
        return statistics.median(self.values)

    @property
    def most(self) -> float:
        """Return the largest ratio."""
        return max(self.values)

    @property
    def verdict(self) -> RatioVerdict:
        """Return whether the figure changed.

        It did not if the median is within 5 % of 1, or if 1 is between the smallest and the largest ratio: with equal
        trees, all of five ratios are on one side of 1 only once in 16 times.
        """
        if abs(self.median - 1) <= WITHIN or self.least <= 1 <= self.most:
            return RatioVerdict.WITHIN
        return RatioVerdict.BETTER if (self.median > 1) == higher_is_better(self.figure) else RatioVerdict.WORSE


def higher_is_better(figure: str) -> bool:
    """Return whether a larger figure is better: true for rates, but not for times measured at a rate."""
    return figure.endswith("/s") and " ms" not in figure


def ratio(now: float, before: float) -> float:
    """Return the ratio of `now` to `before`: 1 if neither is above 0, infinity if only `now` is."""
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
