"""How long a round lasts, which acceptances still count, and when and why a search is over (docs/product.md#pairing)."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.pairing.rules import (
    InvitationTally,
    RequestClosed,
    RequestTaken,
    Response,
    Round,
    Search,
    SearchLimits,
    after_absence,
    after_rejection,
    all_rejected,
    answer_in_time,
    begin_search,
    check_open,
    depends_on_eligible,
    end_of_round,
    is_idle,
    next_round,
    round_ends,
)
from core.payments.failures.causes import CauseTag
from core.sessions.states import SessionStatus
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
SECONDS = st.integers(0, 10_000).map(lambda s: dt.timedelta(seconds=s))
LIMITS = SearchLimits(search=300 * SECOND, blast_round=60 * SECOND, targeted_round=20 * SECOND)
# Every tally of up to three mitras, with the answer to "is another mitra eligible?".
TALLIES = [
    (InvitationTally(asked=asked, rejected=rejected, open=still_open), eligible)
    for asked in range(4)
    for rejected in range(asked + 1)
    for still_open in range(asked - rejected + 1)
    for eligible in (True, False)
]
EVERY = for_each(("tally", "eligible"), TALLIES)


def searching(*, is_targeted: bool, left: dt.timedelta = 100 * SECOND, number: int = 1) -> Search:
    """Return a search whose round is over, with this much time left."""
    return Search(is_targeted=is_targeted, round=Round(number=number, ends_at=NOW), ends_at=NOW + left)


@given(SECONDS, SECONDS)
def test_answer_by_is_the_earlier_end_of_round_and_search(length: dt.timedelta, search: dt.timedelta):
    assert round_ends(now=NOW, round_length=length, search_ends_at=NOW + search) == NOW + min(length, search)


@given(st.builds(SearchLimits, search=SECONDS, blast_round=SECONDS, targeted_round=SECONDS), st.booleans())
def test_first_round_has_the_length_of_its_kind_and_ends_with_the_search(limits: SearchLimits, is_targeted: bool):
    search = begin_search(limits, is_targeted=is_targeted, now=NOW)
    assert (search.is_targeted, search.ends_at, search.round.number) == (is_targeted, NOW + limits.search, 1)
    length = limits.targeted_round if is_targeted else limits.blast_round
    assert search.round.ends_at == NOW + min(length, limits.search)


@given(SECONDS, SECONDS, st.integers(1, 9), st.booleans())
def test_next_round_is_a_blast_whatever_the_search_was(
    left: dt.timedelta, length: dt.timedelta, number: int, was_targeted: bool
):
    limits = SearchLimits(search=SECOND, blast_round=length, targeted_round=SECOND)
    following = next_round(searching(is_targeted=was_targeted, left=left, number=number), limits, now=NOW)
    assert following == Round(number=number + 1, ends_at=NOW + min(length, left))


@given(SECONDS, SECONDS, st.integers(-20_000, 20_000), st.booleans())
def test_acceptance_counts_until_the_round_of_a_targeted_request_or_the_blast_ends(
    a: dt.timedelta, b: dt.timedelta, later: int, is_targeted: bool
):
    now = NOW + dt.timedelta(seconds=later)
    present = Round(number=1, ends_at=NOW + min(a, b))
    search = Search(is_targeted=is_targeted, round=present, ends_at=NOW + max(a, b))
    assert answer_in_time(search, now=now) is (now < (present.ends_at if is_targeted else search.ends_at))


def test_acceptance_at_the_moment_of_the_end_is_too_late():
    for is_targeted in (True, False):
        assert not answer_in_time(searching(is_targeted=is_targeted, left=0 * SECOND), now=NOW)


@EVERY
def test_all_rejected_requires_an_invited_mitra_and_no_mitra_left(tally: InvitationTally, eligible: bool):
    assert all_rejected(tally) is (tally.asked > 0 and tally.rejected == tally.asked)


@EVERY
@for_each("left", [-SECOND, 0 * SECOND, SECOND], ids=["late", "over", "running"])
def test_blast_goes_on_or_fails_with_one_cause(tally: InvitationTally, eligible: bool, left: dt.timedelta):
    search = searching(is_targeted=False, left=left)
    following = end_of_round(search, tally, LIMITS, anyone_eligible=eligible, now=NOW)
    if left <= 0 * SECOND:
        assert following is CauseTag.NO_MITRA_AVAILABLE
    elif tally.asked > 0 and tally.rejected == tally.asked and not eligible:
        assert following is CauseTag.ALL_MITRAS_REJECTED
    else:
        assert following == next_round(search, LIMITS, now=NOW)


@EVERY
def test_targeted_search_fails_when_its_round_ends_its_mitra_rejects_or_is_absent(
    tally: InvitationTally, eligible: bool
):
    search = searching(is_targeted=True)
    following = end_of_round(search, tally, LIMITS, anyone_eligible=eligible, now=NOW)
    assert following is CauseTag.TARGETED_MITRA_TIMEOUT
    assert after_rejection(search, tally, anyone_eligible=eligible) is CauseTag.TARGETED_MITRA_REJECTED
    assert after_absence(search) is CauseTag.TARGETED_MITRA_OFFLINE


@EVERY
def test_blast_fails_after_a_rejection_exactly_if_it_would_at_the_end_of_the_round(
    tally: InvitationTally, eligible: bool
):
    search = searching(is_targeted=False)
    following = end_of_round(search, tally, LIMITS, anyone_eligible=eligible, now=NOW)
    cause = after_rejection(search, tally, anyone_eligible=eligible)
    assert cause is (following if isinstance(following, CauseTag) else None)


def test_blast_survives_the_absence_of_a_mitra():
    assert after_absence(searching(is_targeted=False)) is None


@EVERY
def test_eligible_mitras_matter_exactly_where_the_rules_say_so(tally: InvitationTally, eligible: bool):
    for is_targeted, left in itertools.product((True, False), (0 * SECOND, SECOND)):
        search = searching(is_targeted=is_targeted, left=left)
        if not depends_on_eligible(search, tally):
            for answer in (eligible, not eligible):
                after = end_of_round(search, tally, LIMITS, anyone_eligible=answer, now=NOW)
                assert after == end_of_round(search, tally, LIMITS, anyone_eligible=True, now=NOW)
                cause = after_rejection(search, tally, anyone_eligible=answer)
                assert cause is after_rejection(search, tally, anyone_eligible=True)


@EVERY
def test_round_whose_end_has_no_effect_is_followed_by_another(tally: InvitationTally, eligible: bool):
    if is_idle(tally, anyone_eligible=eligible):
        assert (tally.open, eligible) == (0, False)
        search = searching(is_targeted=False)
        assert isinstance(end_of_round(search, tally, LIMITS, anyone_eligible=eligible, now=NOW), Round)


def test_responses_equal_the_documented_ones():
    assert {response.value for response in Response} == {"ACCEPTED", "REJECTED", "MISSED", "IGNORED", "CANCELLED"}


def test_targeted_causes_and_no_others_may_fall_back_to_a_blast():
    assert {tag for tag in CauseTag if tag.cause.may_fall_back} == {
        tag for tag in CauseTag if tag.startswith("targeted_")
    }


@for_each("response", [None, *Response])
@for_each("status", SessionStatus)
def test_invitation_to_a_paired_session_is_taken(status: SessionStatus, response: str | None) -> None:
    with pytest.raises(RequestTaken):
        check_open(status, is_paired=True, response=response)


@for_each("response", [None, *Response])
@for_each("status", SessionStatus)
def test_only_an_unanswered_invitation_to_a_running_search_is_open(status: SessionStatus, response: str | None) -> None:
    if status == "searching" and response is None:
        check_open(status, is_paired=False, response=response)
        return
    with pytest.raises(RequestClosed):
        check_open(status, is_paired=False, response=response)
