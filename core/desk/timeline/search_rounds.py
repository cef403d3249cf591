"""Say which mitras the rounds of a search could ask, and how their invitations ended (docs/fairness.md)."""

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs

from core.base.field_types import SessionId
from core.base.languages import Text
from core.desk.timeline.entries import TimelineEntry

# Column -> what is said of a mitra in it. The first three are those of the online mitras that the round could not ask.
OUTCOMES = {
    "silent": Text(en="without a heartbeat", id="tanpa detak"),
    "full": Text(en="full", id="penuh"),
    "declined": Text(en="had declined", id="sudah menolak sebelumnya"),
    "accepted": Text(en="accepted", id="menerima"),
    "rejected": Text(en="rejected", id="menolak"),
    "unanswered": Text(en="did not answer", id="tidak menjawab"),
    "closed": Text(en="closed before they answered", id="ditutup sebelum menjawab"),
    "not_asked": Text(en="not asked", id="tidak diminta"),
    "joined": Text(en="of them available later", id="di antaranya baru tersedia kemudian"),
}


@attrs.frozen(kw_only=True)
class SearchRound:
    """A round of a search that has ended (`SearchRound` in core/pairing/tables.py)."""

    session_id: SessionId
    round_number: int
    ended_at: dt.datetime
    online: int
    fresh: int
    with_room: int
    askable: int
    asked: int
    accepted: int
    rejected: int
    unanswered: int
    closed: int
    is_last: bool  # the last round of the payment's last search

    def parts(self) -> dict[str, int]:
        """Return the number of mitras of each outcome, in the order of OUTCOMES.

        Mitras who became available during the round were not online, or could not be asked, when it began. All but
        `joined` together are the online mitras and those.
        """
        return {
            "silent": self.online - self.fresh,
            "full": self.fresh - self.with_room,
            "declined": self.with_room - self.askable,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "unanswered": self.unanswered,
            "closed": self.closed,
            "not_asked": max(0, self.askable - self.asked),
            "joined": max(0, self.asked - self.askable),
        }

    def summary(self) -> Text:
        """Return a phrase such as "12 online: 9 full, 2 had declined, 1 did not answer"."""
        said, separator = Text(en=f"{self.online} online", id=f"{self.online} daring"), ": "
        for name, count in self.parts().items():
            if count:
                outcome = OUTCOMES[name]
                said = Text(
                    en=f"{said.en}{separator}{count} {outcome.en}", id=f"{said.id}{separator}{count} {outcome.id}"
                )
                separator = ", "
        return said


def rounds_of(rows: list[Any]) -> list[SearchRound]:
    """Return the rounds of rows of the statement `rounds`."""
    return [SearchRound(**dict(row)) for row in rows]


def alike(rounds: Sequence[SearchRound]) -> Iterator[tuple[SearchRound, SearchRound]]:
    """Yield (first, last) of consecutive rounds of a search with the same summary that asked no mitra.

    A round that asked mitras is yielded alone, as both.
    """

    def key(one: SearchRound) -> tuple[str, str, int]:
        return one.session_id, one.summary().en, one.round_number if one.asked else 0

    for _, group in groupby(rounds, key):
        found = list(group)
        yield found[0], found[-1]


def of_last(last: SearchRound) -> Text:
    """Return the sentence about the last round of a search."""
    summary = last.summary()
    return Text(
        en=f"Its last round, number {last.round_number}, had {summary.en}.",
        id=f"Putaran terakhirnya, nomor {last.round_number}: {summary.id}.",
    )


def of_rounds(rounds: list[SearchRound]) -> list[TimelineEntry]:
    """Return the timeline's entries of rounds that have ended; rounds without a difference share one."""
    found: list[TimelineEntry] = []
    for first, last in alike(rounds):
        numbers = f"Each round from {first.round_number} to" if first is not last else "Round"
        text = f"{numbers} {last.round_number} had {last.summary().en}."
        found.append(TimelineEntry(at=last.ended_at, kind="round_ended", text=text, session_id=last.session_id))
    return found
