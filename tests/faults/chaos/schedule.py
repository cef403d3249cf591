"""The schedule of faults, computed from a seed alone, so that a run can be repeated."""

import random

import attrs

# Kind -> its weight, and the range of its duration in real seconds. Zero means that it is over at once.
KINDS: dict[str, tuple[float, tuple[float, float]]] = {
    "kill api": (3, (0, 0)),
    "kill realtime": (3, (0, 0)),
    "kill jobs": (3, (0, 0)),
    "term api": (1, (0, 0)),
    "term realtime": (1, (0, 0)),
    "term jobs": (1, (0, 0)),
    "freeze api": (1, (0.5, 4)),
    "freeze realtime": (1, (0.5, 4)),
    "freeze jobs": (1, (0.5, 6)),
    "postgres killed": (1, (0, 0)),
    "postgres stopped": (0.5, (0, 0)),
    "postgres connections reset": (2, (0, 0)),
    "postgres refuses": (1, (0.3, 3)),
    "postgres hangs": (1, (0.5, 6)),
    "postgres hangs for one": (1, (0.5, 6)),
    "postgres answers lost": (2, (0.2, 1)),
    "redis flushed": (1, (0, 0)),
    "redis killed": (1, (0, 0)),
    "redis hangs": (1, (0.5, 5)),
    "redis refuses": (1, (0.6, 0.6)),
    "redis refuses for long": (0.5, (3, 30)),
    "phones lose the network": (2, (0, 0)),
}
# More faults of phones whose app is the client library.
LIBRARY_KINDS: dict[str, tuple[float, tuple[float, float]]] = {
    "phones restart": (2, (0, 0)),
    "phones hang": (1, (2, 15)),
}
FREEZE_30_S = "postgres hangs"  # a long run has one freeze of 30 s


@attrs.frozen(kw_only=True)
class Fault:
    """One fault: when it begins, its kind, its target (a number that the run takes modulo), and its duration."""

    at: float
    kind: str
    whom: int
    seconds: float

    def __str__(self) -> str:
        span = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:6.1f}  {self.kind}{span} ({self.whom})"


def schedule(seed: int, *, seconds: float, pace: float, library: bool = False) -> list[Fault]:
    """Return the faults of a run of `seconds`, one in `pace` seconds on average; all end within the run.

    With `library`, the phones' apps fail, too.
    """
    dice = random.Random(seed)
    ranges = KINDS | LIBRARY_KINDS if library else KINDS
    kinds = list(ranges)
    weights = [ranges[kind][0] for kind in kinds]
    found = []
    at = dice.uniform(0.5, 1.5)
    while at < seconds:
        kind = dice.choices(kinds, weights)[0]
        low, high = ranges[kind][1]
        span = min(dice.uniform(low, high), seconds - at)
        found.append(Fault(at=round(at, 2), kind=kind, whom=dice.randrange(100), seconds=round(span, 2)))
        at += dice.expovariate(1 / pace)
    if seconds >= 120:
        found.append(Fault(at=round(seconds / 2, 2), kind=FREEZE_30_S, whom=0, seconds=30.0))
        found.sort(key=lambda fault: fault.at)
    return found
