"""How long a round lasts, which acceptances still count, and when a search is over (docs/product.md#pairing)."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from core.pairing.rules import Response, Tally, all_rejected, answer_in_time, round_ends
from core.pairing_failures.causes import CauseTag

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
SECONDS = st.integers(0, 10_000).map(lambda s: dt.timedelta(seconds=s))


@given(SECONDS, SECONDS)
def test_answer_by_is_the_earlier_end_of_round_and_search(length: dt.timedelta, search: dt.timedelta):
    assert round_ends(now=NOW, round_length=length, search_ends_at=NOW + search) == NOW + min(length, search)


@given(SECONDS, SECONDS, st.integers(-20_000, 20_000))
def test_acceptance_of_a_blast_counts_until_the_search_ends(a: dt.timedelta, b: dt.timedelta, later: int):
    now = NOW + dt.timedelta(seconds=later)
    search_ends_at = NOW + max(a, b)
    in_time = answer_in_time(targeted=False, round_ends_at=NOW + min(a, b), search_ends_at=search_ends_at, now=now)
    assert in_time is (now < search_ends_at)


@given(SECONDS, SECONDS, st.integers(-20_000, 20_000))
def test_acceptance_of_a_targeted_request_counts_until_its_round_ends(a: dt.timedelta, b: dt.timedelta, later: int):
    now = NOW + dt.timedelta(seconds=later)
    round_ends_at = NOW + min(a, b)
    in_time = answer_in_time(targeted=True, round_ends_at=round_ends_at, search_ends_at=NOW + max(a, b), now=now)
    assert in_time is (now < round_ends_at)


def test_acceptance_at_the_moment_of_the_end_is_too_late():
    for targeted in (True, False):
        assert not answer_in_time(targeted=targeted, round_ends_at=NOW, search_ends_at=NOW, now=NOW)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_all_rejected_requires_an_invited_mitra_and_no_mitra_left(asked: int, rejected: int, still_open: int):
    rejected = min(asked, rejected)
    said = all_rejected(Tally(asked=asked, rejected=rejected, open=min(still_open, asked - rejected)))
    assert said is (asked > 0 and rejected == asked)


def test_responses_equal_the_documented_ones():
    assert {response.value for response in Response} == {"ACCEPTED", "REJECTED", "MISSED", "IGNORED", "CANCELLED"}


def test_targeted_causes_and_no_others_may_fall_back_to_a_blast():
    assert {tag for tag in CauseTag if tag.cause.may_fall_back} == {
        tag for tag in CauseTag if tag.startswith("targeted_")
    }
