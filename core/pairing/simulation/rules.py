"""What a simulation may change, what it needs, and what it answers (docs/simulation.md)."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import attrs

from core.base.errors import DomainError, Kind, Repeat, ValidationFailed
from core.base.languages import Text
from core.config.keys import KEYS
from core.config.rules import check
from core.pairing.rules import SearchLimits, Waves

# The configuration rows that can be tried.
TRIABLE = (
    "blast_size",
    "blast_wave_seconds",
    "pairing_blast_timeout_seconds",
    "searching_timeout_minutes",
    "max_customers_per_mitra",
)
# The spans of seconds after a request in which its answers are counted, by where each begins; the last one is open.
SPANS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 26.0, 34.0, 45.0, 60.0, 90.0, 150.0)
MAX_LOAD, MAX_BEFORE = 9, 2  # more chats, or more earlier requests of a search, count as these
FIGURES = ("unserved", "wait_p50", "wait_p90", "phones_rung", "load")
DAYS_JUDGED = 7  # the newest days, which the back-test forecasts
LEAST_DAYS, LEAST_SEARCHES, LEAST_ANSWERS = 14, 300, 500
MOST_DAYS = 92
MOST_GUESSED = 0.33  # share of the acceptances that the forecast may guess
MOST_EXTRA = 200  # mitras of the extra shifts of a simulation
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIME = r"((?:[01]\d|2[0-3]):[0-5]\d)"
SHIFT = re.compile(rf"([1-9]\d{{0,2}})@({'|'.join(WEEKDAYS)})/{TIME}-{TIME}", re.ASCII)
SHIFT_RULE = Text(
    en="must be such as 2@fri/18:00-22:00: the number of mitras, the day and the hours",
    id="harus seperti 2@fri/18:00-22:00: jumlah mitra, hari dan jam",
)


class NotEnoughHistory(DomainError):
    """The history is too short for a forecast, or too much of the forecast would be guessed; `details` has what there
    is, and what is needed."""

    kind = Kind.INVALID
    code = "NOT_ENOUGH_HISTORY"
    repeat = Repeat.LATER
    message = Text(en="There is not enough history for a forecast.", id="Riwayat belum cukup untuk membuat perkiraan.")
    advice = "Show what is missing. Try again later, or a value nearer to the present one."


@attrs.frozen(kw_only=True)
class ExtraShift:
    """Mitras who would be online each week, from a time of a day (1: Monday) to another one, in the business's zone."""

    mitras: int
    weekday: int
    begins: dt.time
    ends: dt.time  # not after `begins`: on the next day

    @classmethod
    def parse(cls, text: str) -> "ExtraShift":
        """Read a shift such as 2@fri/18:00-22:00. Raises ValidationFailed."""
        found = SHIFT.fullmatch(text.strip().lower())
        if found is None:
            raise ValidationFailed.of("extra_shifts", SHIFT_RULE)
        begins, ends = map(dt.time.fromisoformat, found.groups()[2:])
        return cls(mitras=int(found[1]), weekday=WEEKDAYS.index(found[2]) + 1, begins=begins, ends=ends)

    def __str__(self) -> str:
        return f"{self.mitras}@{WEEKDAYS[self.weekday - 1]}/{self.begins:%H:%M}-{self.ends:%H:%M}"


@attrs.frozen(kw_only=True)
class Change:
    """What a simulation tries: rows with their new values, and mitras who would be online as well."""

    settings: Mapping[str, int]
    extra_shifts: tuple[ExtraShift, ...] = ()

    def check(self) -> None:
        """Check that the rows can be tried, and their values. Raises ValidationFailed."""
        for name, value in self.settings.items():
            if name not in TRIABLE:
                listed = ", ".join(TRIABLE)
                raise ValidationFailed.of("settings", Text(en=f"must be of {listed}", id=f"harus dari {listed}"))
            check(KEYS[name], value)
        if sum(one.mitras for one in self.extra_shifts) > MOST_EXTRA:
            most = Text(en=f"must be at most {MOST_EXTRA} mitras", id=f"paling banyak {MOST_EXTRA} mitra")
            raise ValidationFailed.of("extra_shifts", most)


@attrs.frozen(kw_only=True)
class SearchSettings:
    """The values of the rows by which searches ask mitras."""

    limits: SearchLimits
    waves: Waves
    capacity: int


@attrs.frozen(kw_only=True)
class Row:
    """A figure: what happens now, what would happen, and an interval that holds it in nine of ten cases.

    `unserved` is a share of the searches; waits are in seconds, of the searches that a mitra accepted; `phones_rung`
    counts the requests of a search; `load` is the mean number of chats of a mitra who is online.
    """

    figure: str
    present: float
    forecast: float
    low: float
    high: float


@attrs.frozen(kw_only=True)
class BackTest:
    """A figure of the last days: what the days before would have forecast, and what happened."""

    figure: str
    forecast: float
    happened: float


@attrs.frozen(kw_only=True)
class HourOfWeek:
    """The share of unserved searches in an hour of the week, in the business's zone. `weekday` 1 is Monday."""

    weekday: int
    hour: int
    searches: int
    present: float
    forecast: float


@attrs.frozen(kw_only=True)
class Bar:
    """A part of a distribution: what lies up to `upto` and above the bar before, as shares of the whole."""

    upto: int | None  # None: all the rest
    present: float
    forecast: float


@attrs.frozen(kw_only=True)
class Forecast:
    """The answer of a simulation.

    `waits`: the searches that were accepted, by seconds. `loads`: the time of mitras who are online, by the number of
    their chats. `guessed` is the share of acceptances without a precedent in the history. `days` and `searches` are
    those of the history.
    """

    rows: tuple[Row, ...]
    back_test: tuple[BackTest, ...]
    by_hour: tuple[HourOfWeek, ...]
    waits: tuple[Bar, ...]
    loads: tuple[Bar, ...]
    guessed: float
    days: int
    searches: int

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        return attrs.asdict(self, recurse=True)


def tried(values: Mapping[str, int]) -> SearchSettings:
    """Return the settings of these values of the rows in TRIABLE."""
    wave, round_ = (
        dt.timedelta(seconds=values[name]) for name in ("blast_wave_seconds", "pairing_blast_timeout_seconds")
    )
    search = dt.timedelta(minutes=values["searching_timeout_minutes"])
    return SearchSettings(
        limits=SearchLimits(search=search, blast_round=round_, targeted_round=dt.timedelta()),
        waves=Waves(size=values["blast_size"], length=wave),
        capacity=values["max_customers_per_mitra"],
    )
