"""Ended auth sessions are remembered for the lifetime of their access tokens, and no longer."""

from core.security.caches import RevokedLogins

KEEP_S = 960.0


def test_ended_auth_session_is_remembered_for_the_life_of_its_tokens():
    revoked = RevokedLogins(keep_s=KEEP_S)
    revoked.add(["a"], now=0)
    revoked.add([], now=KEEP_S - 0.001)
    assert "a" in revoked
    revoked.add([], now=KEEP_S)
    assert "a" not in revoked


def test_repeated_end_is_remembered_from_the_last_time():
    revoked = RevokedLogins(keep_s=KEEP_S)
    revoked.add(["a"], now=0)
    revoked.add(["b"], now=1)
    revoked.add(["a"], now=2)
    revoked.add([], now=KEEP_S + 1)
    assert "b" not in revoked
    assert "a" in revoked


def test_memory_of_ended_auth_sessions_is_limited_to_one_token_lifetime():
    revoked = RevokedLogins(keep_s=KEEP_S)
    for second in range(100_000):
        revoked.add([f"session-{second}"], now=float(second))
        assert len(revoked) <= KEEP_S
    assert len(revoked) == KEEP_S


def test_ended_auth_sessions_since_a_moment_are_those_that_were_added_then():
    revoked = RevokedLogins(keep_s=KEEP_S)
    for second, name in enumerate("abcda"):
        revoked.add([name], now=float(second))
    assert revoked.added_since(3.0) == ["a", "d"]
    assert revoked.added_since(5.0) == []
    assert sorted(revoked.added_since(0.0)) == ["a", "b", "c", "d"]
