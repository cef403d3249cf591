"""The results of `make ha`: one row for each fault, printed and written to docs/ha-results.md."""

import pathlib
from collections.abc import Sequence

import attrs

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "ha-results.md"
HEAD = """# Failover results

What `make ha` measured last. It runs the real engines and a whole service on one machine, breaks one of them or replaces
the service's processes while users chat and pay, and compares what the service acknowledged with what is stored.

- *Acknowledged*: messages and payments that the service reported as stored during the fault.
- *Lost*: acknowledged, but not in the database afterwards.
- *Longest gap*: the longest time that one user waited for the acknowledgement of a message, in seconds.
- *Latest delivery*: the longest time from the acknowledgement of a message until the other party's phone showed it, in
  seconds.
- *Recovery*: from the fault until the last gap, or wait for a message, of more than a second ended; 0 if there was none.
  A rolling deploy takes a minute, and interrupts the users of each realtime process in its turn.
- *Violations*: what `sesi audit` found afterwards.
- *Failures*: in a [rolling deploy](operating.md#rolling-deploys) failed requests, of users who never repeat one;
  messages that were shown more than 5 s after their acknowledgement; and mitras who went offline.

"""
COLUMNS = (
    "| engine | fault | connection | acknowledged | lost | longest gap, s | latest delivery, s | recovery, s "
    "| violations | failures | seen |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


@attrs.frozen(kw_only=True)
class Outcome:
    """What one fault did. `connection` is how the service or its users reach what has the fault. `failures` counts other
    broken promises, and `seen` says what else was measured."""

    engine: str
    fault: str
    connection: str
    acknowledged: int
    lost: int
    longest_gap_s: float
    latest_delivery_s: float
    recovery_s: float
    violations: int
    failures: int = 0
    seen: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing was lost, no promise was broken and the audit found nothing."""
        return self.acknowledged > 0 and self.lost == self.violations == self.failures == 0

    def row(self) -> str:
        """Return the row of the table."""
        cells = [self.engine, self.fault, self.connection, str(self.acknowledged), str(self.lost)]
        cells += [f"{seconds:.1f}" for seconds in (self.longest_gap_s, self.latest_delivery_s, self.recovery_s)]
        return f"| {' | '.join([*cells, str(self.violations), str(self.failures), self.seen])} |"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    return "\n".join([COLUMNS, *(outcome.row() for outcome in outcomes)])


def write(outcomes: Sequence[Outcome], notes: Sequence[str]) -> None:
    """Write the page. `notes` are paragraphs about the conditions of the run."""
    PAGE.write_text(HEAD + table(outcomes) + "\n\n" + "\n\n".join(notes) + "\n")
