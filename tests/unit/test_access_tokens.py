"""Access tokens: HS256 only, a known kid, the listener's audience, every claim, not expired (docs/security.md)."""

import base64
import datetime as dt
import hashlib
import hmac
import json
import uuid
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from core.base.actor import UserType
from core.base.errors import Unauthenticated
from core.security.access import AccessClaims, AccessTokens, audience_of
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
FIRST, SECOND = ("new", b"n" * 32), ("old", b"o" * 32)
USER, SESSION = "01900000-0000-7000-8000-000000000003", "01900000-0000-7000-8000-000000000004"
CLAIMS = {
    "sub": USER,
    "typ": "customer",
    "sid": SESSION,
    "aud": "public",
    "iat": int(NOW.timestamp()),
    "exp": int(NOW.timestamp()) + 900,
    "jti": "01900000-0000-7000-8000-000000000005",
}


def create_tokens() -> AccessTokens:
    return AccessTokens((FIRST, SECOND))


def a_token(tokens: AccessTokens, *, user_type: UserType = UserType.CUSTOMER, seconds: int = 900) -> str:
    return tokens.make(user_type=user_type, user_id=USER, auth_session_id=SESSION, now=NOW, seconds=seconds)


def signed(
    claims: dict[str, Any] | None = None, *, key: Any = FIRST[1], algorithm: str = "HS256", kid: Any = "new"
) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(CLAIMS if claims is None else claims, key, algorithm=algorithm, headers=headers)


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes = FIRST[1]) -> str:
    """Return a token with any header, signed with HMAC-SHA256 whatever the header says."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims)]
    seal = hmac.new(key, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, base64.urlsafe_b64encode(seal).decode().rstrip("=")])


def experienced() -> AccessTokens:
    """Return a checker that has accepted the headers of usual tokens, of which it checks only the signature."""
    tokens = create_tokens()
    for kid, key in (FIRST, SECOND):
        tokens.check(signed(key=key, kid=kid), audience="public", now=NOW)
    return tokens


def refused(token: str, *, audience: str = "public", now: dt.datetime = NOW) -> None:
    for tokens in (create_tokens(), experienced()):
        with pytest.raises(Unauthenticated):
            tokens.check(token, audience=audience, now=now)


@pytest.mark.parametrize("user_type", UserType)
def test_access_token_names_user_device_and_expiry(user_type: UserType):
    tokens = create_tokens()
    audience = "internal" if user_type is UserType.OPERATOR else "public"
    claims = tokens.check(a_token(tokens, user_type=user_type), audience=audience, now=NOW)
    assert audience_of(user_type) == audience
    assert claims == AccessClaims(
        user_type=user_type,
        user_id=USER,
        auth_session_id=SESSION,
        audience=audience,
        expires_at=int(NOW.timestamp()) + 900,
    )


def test_access_token_has_exactly_the_documented_claims_and_the_first_kid():
    token = a_token(create_tokens())
    raw = jwt.decode(token, options={"verify_signature": False})
    header = jwt.get_unverified_header(token)
    assert set(raw) == {"sub", "typ", "sid", "aud", "iat", "exp", "jti"} == set(CLAIMS)
    assert (header["alg"], header["kid"]) == ("HS256", "new")
    assert uuid.UUID(raw["jti"]).version == 7


def test_access_tokens_are_unique():
    tokens = create_tokens()
    assert a_token(tokens) != a_token(tokens)


def test_access_token_signed_with_any_configured_secret_is_valid():
    for kid, key in (FIRST, SECOND):
        assert create_tokens().check(signed(key=key, kid=kid), audience="public", now=NOW).user_id == USER


@given(at=st.integers(min_value=0), character=st.characters())
def test_changed_token_gets_the_same_answer_from_a_checker_that_knows_its_header(at: int, character: str):
    token = signed()
    at %= len(token)
    changed = token[:at] + character + token[at + 1 :]

    def answer(tokens: AccessTokens) -> AccessClaims | None:
        try:
            return tokens.check(changed, audience="public", now=NOW)
        except Unauthenticated:
            return None

    assert answer(create_tokens()) == answer(experienced())


def test_access_token_without_a_signature_is_refused():
    refused(jwt.encode(CLAIMS, None, algorithm="none", headers={"kid": "new"}))
    refused(by_hand({"alg": "none", "typ": "JWT", "kid": "new"}, CLAIMS))
    refused(signed().rpartition(".")[0] + ".")
    for none in ("none", "None", "NONE", "", None):
        refused(by_hand({"alg": none, "kid": "new"}, CLAIMS))


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_access_token_with_another_hmac_is_refused(algorithm: str):
    key = b"n" * 64  # as long as these algorithms require
    keeper = AccessTokens((("new", key),))
    assert keeper.check(signed(key=key), audience="public", now=NOW).user_id == USER
    with pytest.raises(Unauthenticated):
        keeper.check(signed(key=key, algorithm=algorithm), audience="public", now=NOW)


def test_access_token_with_an_rsa_header_is_refused():
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    refused(signed(key=private, algorithm="RS256"))
    for algorithm in ("RS256", "ES256", "PS256", "EdDSA", "hs256"):
        refused(by_hand({"alg": algorithm, "typ": "JWT", "kid": "new"}, CLAIMS))


@pytest.mark.parametrize("kid", [None, "unknown", "", "NEW", "new "])
def test_access_token_with_an_unknown_or_missing_kid_is_refused(kid: str | None):
    refused(signed(kid=kid))


@pytest.mark.parametrize("kid", [7, ["new"], {"new": 1}, None, True])
def test_access_token_with_a_kid_that_is_not_a_string_is_refused(kid: Any):
    refused(by_hand({"alg": "HS256", "typ": "JWT", "kid": kid}, CLAIMS))


def test_access_token_with_the_kid_of_another_secret_is_refused():
    refused(signed(key=SECOND[1], kid="new"))
    refused(signed(key=b"stranger" * 4, kid="new"))


@pytest.mark.parametrize(
    ("user_type", "audience"), [("customer", "internal"), ("mitra", "internal"), ("operator", "public")]
)
def test_access_token_of_one_listener_is_refused_at_the_other(user_type: str, audience: str):
    tokens = create_tokens()
    token = a_token(tokens, user_type=UserType(user_type))
    other = "public" if audience == "internal" else "internal"
    assert tokens.check(token, audience=other, now=NOW).user_id == USER
    with pytest.raises(Unauthenticated):
        tokens.check(token, audience=audience, now=NOW)


@pytest.mark.parametrize("claim", CLAIMS)
def test_access_token_without_one_of_its_claims_is_refused(claim: str):
    refused(signed({k: v for k, v in CLAIMS.items() if k != claim}))


@for_each(
    ("claim", "value"),
    [
        ("sub", "somebody"), ("sub", 7), ("sub", None), ("sid", "x"), ("sid", None), ("typ", "admin"), ("typ", None),
        ("typ", ["customer"]), ("aud", ["public", "internal"]), ("aud", None), ("aud", "PUBLIC"), ("exp", "soon"),
        ("exp", None), ("exp", 1.5e10), ("exp", "99999999999"),
    ],
    ids=str,
)  # fmt: skip
def test_access_token_with_a_claim_of_the_wrong_type_is_refused(claim: str, value: Any):
    refused(by_hand({"alg": "HS256", "typ": "JWT", "kid": "new"}, CLAIMS | {claim: value}))


@given(st.integers(30, 86400), st.integers(-10, 10))
def test_access_token_is_valid_until_its_last_second_of_service_time(seconds: int, around: int):
    tokens = create_tokens()
    token = a_token(tokens, seconds=seconds)
    now = NOW + dt.timedelta(seconds=seconds + around)
    if around < 0:
        assert tokens.check(token, audience="public", now=now).user_id == USER
    else:
        with pytest.raises(Unauthenticated):
            tokens.check(token, audience="public", now=now)


def test_access_token_verified_before_is_refused_after_it_expires():
    tokens = create_tokens()
    token = a_token(tokens)
    tokens.check(token, audience="public", now=NOW)
    with pytest.raises(Unauthenticated):
        tokens.check(token, audience="public", now=NOW + dt.timedelta(seconds=900))


def test_access_token_expiry_uses_service_time_only():
    tokens = create_tokens()
    for year in (2001, 2090):
        now = NOW.replace(year=year)
        token = tokens.make(user_type=UserType.MITRA, user_id=USER, auth_session_id=SESSION, now=now, seconds=60)
        assert tokens.check(token, audience="public", now=now).user_type is UserType.MITRA


@given(st.text(max_size=80))
def test_any_text_as_a_token_is_refused(text: str):
    refused(text)
    refused(f"{text}.{text}.{text}")


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_in_the_token_parts_are_refused(header: bytes, claims: bytes):
    parts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (header, claims, b"x" * 32)]
    refused(".".join(parts))
    refused(signed().split(".")[0] + "." + parts[1] + "." + parts[2])


@given(st.integers(0, 10_000))
def test_access_token_with_one_changed_character_is_refused(place: int):
    token = signed()
    at = place % (len(token) - 1)  # the last character of a signature has unused bits
    other = "A" if token[at] != "A" else "B"
    refused(token[:at] + other + token[at + 1 :])


def test_token_with_foreign_claims_and_a_valid_signature_is_refused():
    head, _, seal = signed().split(".")
    body = base64.urlsafe_b64encode(json.dumps(CLAIMS | {"typ": "mitra"}).encode()).decode().rstrip("=")
    refused(f"{head}.{body}.{seal}")
