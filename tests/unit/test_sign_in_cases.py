"""The four cases of a sign-in, and each process's cache of accounts (docs/product.md#merging-accounts)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.accounts.customers.rules import SignInCase, resolve
from core.security.caches import LIMIT, Accounts


@pytest.mark.parametrize(
    ("known", "anonymous", "case"),
    [
        (False, True, SignInCase.UPGRADED), (True, True, SignInCase.JOINED), (False, False, SignInCase.CREATED), (True, False, SignInCase.KNOWN),
    ],
)  # fmt: skip
def test_sign_in_has_one_of_four_cases(*, known: bool, anonymous: bool, case: SignInCase) -> None:
    assert resolve(known=known, anonymous=anonymous) is case


def test_account_cache_answers_only_auth_sessions_that_have_read_it() -> None:
    accounts = Accounts()
    assert accounts.get("c", "s1") is None
    accounts.put("c", "s1", ("c",))
    assert accounts.get("c", "s1") == ("c",)
    assert accounts.get("c", "s2") is None  # it may have joined
    assert accounts.get("d", "s1") is None


def test_account_read_by_a_new_auth_session_updates_the_others() -> None:
    accounts = Accounts()
    accounts.put("c", "s1", ("c",))
    accounts.put("c", "s2", ("c", "a"))
    assert accounts.get("c", "s1") == ("c", "a")


def test_account_that_has_grown_is_read_again() -> None:
    accounts = Accounts()
    for auth_session in ("s1", "s2"):
        accounts.put("c", auth_session, ("c",))
    accounts.put("d", "s3", ("d",))
    accounts.forget("c")
    accounts.forget("nobody")
    assert [accounts.get("c", auth_session) for auth_session in ("s1", "s2")] == [None, None]
    assert accounts.get("d", "s3") == ("d",)


def test_account_cache_is_limited() -> None:
    accounts = Accounts()
    for n in range(LIMIT + 10):
        accounts.put(str(n), "s", (str(n),))
    assert accounts.get(str(LIMIT + 9), "s") == (str(LIMIT + 9),)
    assert sum(accounts.get(str(n), "s") is not None for n in range(LIMIT + 10)) <= LIMIT


IDS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["join", "ask"]), IDS, st.sampled_from(["s1", "s2", "s3"])), max_size=30)


@given(steps=STEPS)
def test_account_cache_returns_no_old_ids_after_a_join_signal(steps: list[tuple[str, str, str]]) -> None:
    """Ids grow by joins; each join is published (`forget`) before the next read of the ids."""
    accounts, truth = Accounts(), {name: (name,) for name in "abc"}
    for n, (what, customer, auth_session) in enumerate(steps):
        if what == "join":
            truth[customer] = (*truth[customer], f"anonymous-{n}")
            accounts.forget(customer)
            continue
        found = accounts.get(customer, auth_session)
        if found is None:
            accounts.put(customer, auth_session, truth[customer])
        else:
            assert found == truth[customer]
