"""The bound of pushes for one recipient (docs/security.md#limits)."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from core.deliveries.pushes.plan import FOR_URGENT, MINUTE, MOST, PushBudget

NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)
PLANS = st.lists(
    st.tuples(st.floats(0, 40), st.sampled_from("ab"), st.integers(0, 12), st.booleans()), min_size=1, max_size=60
)


@given(PLANS)
def test_no_recipient_gets_more_pushes_in_any_minute_and_none_is_dropped_below(
    plans: list[tuple[float, str, int, bool]],
) -> None:
    budget, now, granted = PushBudget(), NOW, list[tuple[dt.datetime, str, int]]()
    for pause, who, wanted, urgent in plans:
        now += dt.timedelta(seconds=pause)
        before = sum(count for at, whose, count in granted if whose == who and at > now - MINUTE)
        most = MOST if urgent else MOST - FOR_URGENT
        count = budget.take(who, wanted, urgent=urgent, now=now)
        assert count == max(0, min(wanted, most - before))
        granted.append((now, who, count))


def test_budget_forgets_recipients_after_a_minute() -> None:
    budget = PushBudget()
    for n in range(100):
        budget.take(str(n), 1, urgent=False, now=NOW)
    budget.take("last", 1, urgent=False, now=NOW + MINUTE)
    assert list(budget._planned) == ["last"]
