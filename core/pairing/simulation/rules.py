"""What a simulation may change, what it needs, and what it answers (docs/simulation.md)."""

import datetime as dt
import enum
import re
from collections.abc import Mapping

import attrs

from core.base.errors import DomainError, Kind, Repeat, ValidationFailed
from core.base.languages import Text
from core.config.keys import KEYS
from core.config.rules import check

# The configuration rows that can be tried.
TRIABLE = (
    "blast_size",
    "blast_wave_seconds",
    "pairing_blast_timeout_seconds",
    "searching_timeout_minutes",
    "max_customers_per_mitra",
)
ZONE = "business_time_zone"
FIGURES = ("unserved", "wait_p50", "wait_p90", "phones_rung", "load")
DAY = dt.timedelta(days=1)
WEEK = 7 * DAY  # the newest days, which the back-test forecasts; and the days after a change that are compared with it
LEAST = {"days": 14, "searches": 300, "answers": 500}  # of the history
MOST_DAYS = 92
MAX_BEFORE, MAX_LOAD = 2, 9  # more earlier requests of a search, or more chats of a mitra, count as these
MOST_GUESSED = 0.33  # share of the acceptances that the forecast may guess
MOST_EXTRA = 200  # mitras of the extra shifts of a simulation
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIME = r"((?:[01]\d|2[0-3]):[0-5]\d)"
SHIFT = re.compile(rf"([1-9]\d{{0,2}})@({'|'.join(WEEKDAYS)})/{TIME}-{TIME}", re.ASCII)
NOTHING_TRIED = Text(
    en="must have a setting, unless there are extra shifts", id="harus berisi pengaturan, kecuali ada giliran tambahan"
)
NOT_TRIABLE = Text(en=f"must be of {', '.join(TRIABLE)}", id=f"harus dari {', '.join(TRIABLE)}")
SHIFT_RULE = Text(
    en="must be such as 2@fri/18:00-22:00: the number of mitras, the day and the hours",
    id="harus seperti 2@fri/18:00-22:00: jumlah mitra, hari dan jam",
)
TOO_MANY = Text(en=f"must be at most {MOST_EXTRA} mitras", id=f"paling banyak {MOST_EXTRA} mitra")


class NotEnoughHistory(DomainError):
    """The history is too short for a forecast, or too much of the forecast would be guessed; `details` has what there
    is, and what is needed."""

    kind = Kind.INVALID
    code = "NOT_ENOUGH_HISTORY"
    repeat = Repeat.LATER
    message = Text(en="There is not enough history for a forecast.", id="Riwayat belum cukup untuk membuat perkiraan.")
    advice = "Show what is missing. Try again later, or a value nearer to the present one."


class SimulationRunning(DomainError):
    """Another simulation is running; `details.id` names it. There is one at a time."""

    code = "SIMULATION_RUNNING"
    repeat = Repeat.LATER
    message = Text(
        en="Another simulation is running. Wait for its end.",
        id="Simulasi lain sedang berjalan. Tunggu sampai selesai.",
    )
    advice = "Show the simulation that runs, and try again after its end."


class SimulationFailure(enum.StrEnum):
    """Why a simulation has no result: what its history lacks, the limit of two minutes, or the end of its process."""

    NOT_ENOUGH_HISTORY = "not_enough_history"
    TOO_SLOW = "too_slow"
    DIED = "died"


def check_history(there: Mapping[str, int]) -> None:
    """Check that there are enough days, searches and answers. Raises NotEnoughHistory."""
    if any(there[name] < least for name, least in LEAST.items()):
        raise NotEnoughHistory(details={**there, **{f"least_{name}": least for name, least in LEAST.items()}})


@attrs.frozen(kw_only=True)
class Change:
    """What a simulation tries: rows with their new values, and mitras who would be online as well, each week.

    A shift such as 2@fri/18:00-22:00 has their number, the day and the hours in the business's zone. One that ends
    before it begins ends on the next day.
    """

    settings: Mapping[str, int]
    extra_shifts: list[str] = attrs.field(factory=list, converter=lambda some: [one.strip().lower() for one in some])

    def check(self) -> None:
        """Check that there is something to try, and that it can be tried. Raises ValidationFailed."""
        if not (self.settings or self.extra_shifts):
            raise ValidationFailed.of("settings", NOTHING_TRIED)
        for name, value in self.settings.items():
            if name not in TRIABLE:
                raise ValidationFailed.of("settings", NOT_TRIABLE)
            check(KEYS[name], value)
        if not all(map(SHIFT.fullmatch, self.extra_shifts)):
            raise ValidationFailed.of("extra_shifts", SHIFT_RULE)
        if sum(int(shift.split("@")[0]) for shift in self.extra_shifts) > MOST_EXTRA:
            raise ValidationFailed.of("extra_shifts", TOO_MANY)


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
