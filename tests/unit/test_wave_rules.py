"""How many mitras a blast asks at a time: all, or a wave (docs/product.md#waves)."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from core.pairing.rules import (
    INVITED_AT_ONCE,
    Asking,
    Round,
    Search,
    Wave,
    Waves,
    ask_now,
    in_round,
    is_cut_short,
    wave_after,
)

NOW = dt.datetime(2026, 11, 24, 6, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
ROUND_ENDS_AT = NOW + 30 * SECOND
SIZES = st.integers(1, 10_000)
LEFT = st.integers(1, 60).map(lambda s: s * SECOND)
LENGTHS = st.integers(1, 3600).map(lambda s: s * SECOND)


def asking(wave: Wave, *, size: int, asked: int, length: dt.timedelta = 9 * SECOND) -> Asking:
    """Return what a search with this newest wave may ask, in a round with 30 s left."""
    return ask_now(wave, Waves(size=size, length=length), asked=asked, round_ends_at=ROUND_ENDS_AT, now=NOW)


@given(st.integers(0, 20_000), st.integers(0, 9))
def test_blast_without_waves_asks_everyone_and_ends_a_running_wave(asked: int, number: int):
    for wave in (Wave(number=number), Wave(number=number, ends_at=NOW + SECOND)):
        assert asking(wave, size=0, asked=asked) == Asking(wave=Wave(number=number), at_most=INVITED_AT_ONCE)


@given(SIZES, LENGTHS, st.integers(0, 9), st.sampled_from([None, NOW - SECOND, NOW]))
def test_wave_that_has_ended_is_followed_by_a_new_one_until_the_round_ends(
    size: int, length: dt.timedelta, number: int, ended: dt.datetime | None
):
    found = asking(Wave(number=number, ends_at=ended), size=size, asked=size, length=length)
    assert found.wave == Wave(number=number + 1, ends_at=min(NOW + length, ROUND_ENDS_AT))
    assert found.at_most == min(size, INVITED_AT_ONCE)


@given(SIZES, st.integers(0, 20_000))
def test_running_wave_asks_no_more_than_its_size(size: int, asked: int):
    wave = Wave(number=3, ends_at=NOW + SECOND)
    found = asking(wave, size=size, asked=asked)
    assert found.wave == wave
    assert found.at_most == max(0, min(size - asked, INVITED_AT_ONCE))


@given(SIZES)
def test_transactions_of_one_wave_ask_its_size_in_all_and_each_no_more_than_one_may(size: int):
    wave, asked, transactions, goes_on = Wave(), 0, 0, True
    while goes_on:
        found = asking(wave, size=size, asked=asked)
        assert found.at_most <= INVITED_AT_ONCE
        transactions += 1
        asked += found.at_most  # there are enough mitras
        wave = wave_after(wave, found, invited=found.at_most)
        assert wave.number == 1
        goes_on = is_cut_short(found, invited=found.at_most)
    assert asked == size
    assert transactions == size // INVITED_AT_ONCE + 1


def test_wave_begins_with_its_first_mitra():
    wave = Wave(number=2, ends_at=NOW)
    found = asking(wave, size=5, asked=5)
    assert wave_after(wave, found, invited=0) == Wave(number=2)
    assert wave_after(wave, found, invited=1) == Wave(number=3, ends_at=NOW + 9 * SECOND)


def test_full_wave_keeps_running():
    wave = Wave(number=2, ends_at=NOW + SECOND)
    found = asking(wave, size=5, asked=5)
    assert (found.at_most, wave_after(wave, found, invited=0)) == (0, wave)


def test_next_round_is_a_blast_that_begins_a_new_wave():
    wave = Wave(number=2, ends_at=NOW + SECOND)
    ends_at = NOW + 60 * SECOND
    search = Search(is_targeted=True, round=Round(number=1, ends_at=ends_at), ends_at=ends_at, wave=wave)
    following = in_round(search, Round(number=2, ends_at=ends_at))
    assert (following.is_targeted, following.round.number, following.wave) == (False, 2, Wave(number=2))
    assert asking(following.wave, size=5, asked=5).wave.number == 3
