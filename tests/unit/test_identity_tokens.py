"""What a provider's signed identity token must contain, and where its keys come from
(docs/product.md#identity-providers).
"""

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import Unavailable
from core.providers.http_client import HttpClient
from core.providers.identity_keys import IdentityKeys
from core.security import identity
from core.security.identity import IdentityClaims, IdentityTokenInvalid
from tests.each import for_each
from tests.http.sign_in.outside import EC_KEY, GARBAGE, RSA_KEYS, IdentityServer, Key

NOW = dt.datetime(2026, 11, 21, 6, 0, 0, tzinfo=dt.UTC)
AUDIENCES, ISSUERS = ("app", "web"), ("https://p.example.test", "p.example.test")
KEY = RSA_KEYS[0]
ISSUED = int(NOW.timestamp())
GOOD: dict[str, Any] = {"iss": ISSUERS[0], "aud": "app", "sub": "s-1", "iat": ISSUED, "exp": ISSUED + 60}
ENDS = NOW + dt.timedelta(seconds=60)


def signed(claims: Any, key: Key = KEY, *, raw: bytes | None = None, **headers: Any) -> str:
    """Return a token with exactly this content."""
    payload = json.dumps(claims).encode() if raw is None else raw
    return jwt.api_jws.encode(payload, key.private, algorithm=key.algorithm, headers={"kid": key.kid, **headers})


def published(key: Key = KEY) -> jwt.PyJWK:
    """Return the key as the provider publishes it."""
    return jwt.PyJWK(key.published())


def check(token: str, key: Key = KEY, *, nonce: str | None = None, now: dt.datetime = NOW) -> IdentityClaims:
    """Verify a token; return its claims."""
    return identity.verify(token, published(key), audiences=AUDIENCES, issuers=ISSUERS, nonce=nonce, now=now)


def said(sent: str | None = None, /, **change: Any) -> IdentityClaims:
    """Verify a valid token with some claims changed; None leaves one out."""
    claims = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    return check(signed(claims), nonce=sent)


def invalid(sent: str | None = None, /, **change: Any) -> None:
    """Check that a token with these changes is refused."""
    with pytest.raises(IdentityTokenInvalid):
        said(sent, **change)


# -- claims


@pytest.mark.parametrize("key", [KEY, EC_KEY])
def test_valid_identity_token_of_either_algorithm_returns_its_claims(key: Key) -> None:
    assert check(signed(GOOD, key), key) == IdentityClaims(subject="s-1", email=None, expires_at=ENDS)


@pytest.mark.parametrize("audience", ["app", "web", ["app"], ["x", "web"], ["app", "web"]])
def test_identity_token_with_one_of_the_audiences_is_accepted(audience: Any) -> None:
    assert said(aud=audience).subject == "s-1"


@for_each("audience", [None, "", "other", ["other"], [], [5], {"app": 1}, 5, True, "APP", "app ", ["app", 5]])
def test_identity_token_with_another_audience_is_refused(audience: Any) -> None:
    invalid(aud=audience)


@pytest.mark.parametrize("issuer", ISSUERS)
def test_identity_token_of_each_issuer_is_accepted(issuer: str) -> None:
    assert said(iss=issuer).subject == "s-1"


@for_each(
    "issuer", [None, "", "https://p.example.test/", "http://p.example.test", [ISSUERS[0]], 5, {}, "P.EXAMPLE.TEST"]
)
def test_identity_token_of_another_issuer_is_refused(issuer: Any) -> None:
    invalid(iss=issuer)


def test_identity_token_is_refused_from_its_exp() -> None:
    assert check(signed(GOOD), now=NOW + dt.timedelta(seconds=59.9)).subject == "s-1"
    for late in (60, 61, 3600):
        with pytest.raises(IdentityTokenInvalid):
            check(signed(GOOD), now=NOW + dt.timedelta(seconds=late))
    assert said(exp=NOW.timestamp() + 0.5).subject == "s-1"


@for_each("exp", [None, "9999999999", "soon", True, [9999999999], {}, 0, -1, float("nan"), float("-inf")])
def test_identity_token_with_an_invalid_exp_is_refused(exp: Any) -> None:
    invalid(exp=exp)


@for_each("iat", [None, str(ISSUED), True, [ISSUED], {}, ISSUED + 61, float("nan"), float("inf"), 10**400])
def test_identity_token_with_an_invalid_iat_is_refused(iat: Any) -> None:
    invalid(iat=iat, exp=ISSUED + 600)


def test_identity_token_issued_a_minute_in_the_future_is_accepted() -> None:
    assert said(iat=ISSUED + 60, exp=ISSUED + 600).subject == "s-1"
    assert said(iat=ISSUED - 10**6, exp=10**400).expires_at.year == 9999
    invalid(iat=ISSUED + 30, exp=ISSUED + 20)


def test_replay_key_of_a_token_does_not_depend_on_its_signature() -> None:
    """If (r, s) is a valid ES256 signature, (r, -s) is valid too."""
    token = signed(GOOD, EC_KEY)
    head, body, seal = token.split(".")
    raw = base64.urlsafe_b64decode(seal + "==")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    other = raw[:32] + (order - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")
    twin = f"{head}.{body}.{base64.urlsafe_b64encode(other).decode().rstrip('=')}"
    assert check(twin, EC_KEY).subject == "s-1"
    assert twin != token
    assert identity.digest_of(twin) == identity.digest_of(token)
    assert identity.digest_of(token) != identity.digest_of(signed({**GOOD, "sub": "s-2"}, EC_KEY))


@for_each("subject", [None, "", 5, True, ["s"], {}, "x" * 256, "a\0b", "\ud800", "a\udfffb"])
def test_identity_subject_must_have_1_to_255_characters(subject: Any) -> None:
    invalid(sub=subject)


@pytest.mark.parametrize("subject", ["x" * 255, "é" * 255, "001234.abc.5", "名前"])
def test_usual_identity_subjects_are_accepted(subject: str) -> None:
    assert said(sub=subject).subject == subject


@pytest.mark.parametrize("verified", [True, "true", "True", "TRUE"])
def test_verified_email_is_returned(verified: Any) -> None:
    assert said(email="a@example.test", email_verified=verified).email == "a@example.test"


@for_each("verified", [False, "false", None, "", 1, "1", "yes", [True], {}, "none"])
def test_unverified_email_is_dropped(verified: Any) -> None:
    assert said(email="a@example.test", email_verified=verified).email is None


@for_each(
    "email",
    [None, "", "x", "@", 5, ["a@example.test"], "a" * 244 + "@example.test", "a\0@example.test", "\ud800@example.test"],
)
def test_invalid_email_is_dropped_and_the_token_accepted(email: Any) -> None:
    assert said(email=email, email_verified=True) == IdentityClaims(subject="s-1", email=None, expires_at=ENDS)


# -- nonce


def test_identity_nonce_matches_as_is_or_hashed() -> None:
    hashed = hashlib.sha256(b"n-1").hexdigest()
    for claim in ("n-1", hashed):
        assert said("n-1", nonce=claim).subject == "s-1"
    assert said("é名", nonce=hashlib.sha256("é名".encode()).hexdigest()).subject == "s-1"


@for_each("claim", ["n-2", "", "N-1", 5, True, ["n-1"], {}, hashlib.sha256(b"n-2").hexdigest(), "n-1 ", "\ud800"])
def test_identity_token_with_another_nonce_is_refused(claim: Any) -> None:
    invalid("n-1", nonce=claim)
    invalid("n-1", nonce=claim, nonce_supported=False)


@pytest.mark.parametrize("claim", ["n-1", "", 5, False, [], {}])
def test_identity_token_with_a_nonce_needs_it_in_the_request(claim: Any) -> None:
    invalid(None, nonce=claim)
    invalid(None, nonce=claim, nonce_supported=False)


@pytest.mark.parametrize("nonce", ["\ud800", "a\udc00"])
def test_identity_nonce_that_is_not_a_string_is_refused(nonce: str) -> None:
    invalid(nonce, nonce="n-1")


@pytest.mark.parametrize("supported", [False, "false", "False"])
def test_identity_token_of_a_device_without_nonce_support_is_accepted(supported: Any) -> None:
    assert said("n-1", nonce_supported=supported).subject == "s-1"


@for_each("supported", [None, True, "true", "", 0, "no", [], {}])
def test_identity_token_without_its_nonce_is_refused_where_supported(supported: Any) -> None:
    invalid("n-1", nonce_supported=supported)


# -- signatures


def forged() -> dict[str, str]:
    """Return tokens that the provider has not signed."""
    good = signed(GOOD)
    head, body, seal = good.split(".")
    pem = KEY.private.public_key().public_bytes(  # type: ignore[union-attr]
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def with_hmac(secret: bytes, algorithm: str = "HS256") -> str:
        said = f"{part({'alg': algorithm, 'kid': KEY.kid, 'typ': 'JWT'})}.{body}"
        digest = hmac.new(secret, said.encode(), hashlib.sha256).digest()
        return f"{said}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    other = Key(KEY.kid)
    return {
        "alg none": f"{part({'alg': 'none', 'kid': KEY.kid})}.{body}.",
        "alg none with a seal": f"{part({'alg': 'none', 'kid': KEY.kid})}.{body}.{seal}",
        "the public key as a secret": with_hmac(pem),
        "the public key as a secret, called RS256": with_hmac(pem, "RS256"),
        "the key set's text as a secret": with_hmac(json.dumps(KEY.published()).encode()),
        "another key": signed(GOOD, other),
        "no seal": f"{head}.{body}.",
        "half a seal": good[:-8],
        "other claims": f"{head}.{part({**GOOD, 'sub': 's-2'})}.{seal}",
        "another algorithm": jwt.encode(GOOD, KEY.private, algorithm="RS384", headers={"kid": KEY.kid}),  # type: ignore[arg-type]
        "PSS": jwt.encode(GOOD, KEY.private, algorithm="PS256", headers={"kid": KEY.kid}),  # type: ignore[arg-type]
        "called ES256": f"{part({'alg': 'ES256', 'kid': KEY.kid})}.{body}.{seal}",
        "a critical header": signed(GOOD, crit=["exp"], exp=1),
        "detached": signed(GOOD, b64=False, crit=["b64"]),
    }


@pytest.mark.parametrize("what", forged())
def test_identity_token_not_signed_by_the_provider_is_refused(what: str) -> None:
    with pytest.raises(IdentityTokenInvalid):
        check(forged()[what])


def test_key_of_another_algorithm_is_refused() -> None:
    with pytest.raises(IdentityTokenInvalid):
        check(signed(GOOD, EC_KEY, kid=KEY.kid), KEY)
    with pytest.raises(IdentityTokenInvalid):
        check(signed(GOOD, KEY), EC_KEY)


def test_symmetric_key_in_the_key_set_is_refused() -> None:
    secret = {"kty": "oct", "k": base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("="), "kid": "k", "alg": "HS256"}
    token = jwt.encode(GOOD, b"k" * 32, algorithm="HS256", headers={"kid": "k"})
    with pytest.raises(IdentityTokenInvalid):
        identity.verify(token, jwt.PyJWK(secret), audiences=AUDIENCES, issuers=ISSUERS, nonce=None, now=NOW)


@for_each("payload", [b"", b"[]", b"null", b'"x"', b"5", b"{", b"\xff", b"[" * 9_000, b'{"sub": "s-1"'])
def test_signed_payload_that_is_not_a_claims_object_is_refused(payload: bytes) -> None:
    with pytest.raises(IdentityTokenInvalid):
        check(signed(None, raw=payload))


# -- key ids


def header(value: Any) -> str:
    """Return a token that has only this header."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=") + ".e30.x"


@pytest.mark.parametrize("kid", [None, 5, True, ["k"], {}])
def test_key_id_that_is_not_a_string_is_refused(kid: Any) -> None:
    with pytest.raises(IdentityTokenInvalid):
        identity.key_id_of(header({"alg": "RS256", "kid": kid}))


@for_each(
    "token", ["", ".", "..", "x", "a.b.c", "é.é.é", header([]), header("x"), header({}), "." * 999, "\ud800.x.y", " "]
)
def test_text_that_is_not_a_token_has_no_key_id(token: str) -> None:
    with pytest.raises(IdentityTokenInvalid):
        identity.key_id_of(token)


def test_identity_token_names_its_key_id() -> None:
    assert identity.key_id_of(signed(GOOD)) == KEY.kid


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("iss", "aud", "sub", "exp", "iat", "nbf", "jti", "email", "email_verified", "nonce", "nonce_supported")


@given(
    claims=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
    nonce=st.none() | st.text(st.characters(), min_size=1, max_size=10),
)
def test_any_signed_claims_are_accepted_or_refused(claims: dict[str, Any], nonce: str | None) -> None:
    try:
        found = check(signed({**GOOD, **claims}), nonce=nonce)
    except IdentityTokenInvalid:
        return
    assert found.subject == claims.get("sub", "s-1")
    assert 1 <= len(found.subject) <= 255
    (found.subject + (found.email or "")).encode()  # the database can store it


@given(token=st.text(st.characters(), max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_any_text_as_an_identity_token_is_refused(token: str) -> None:
    with pytest.raises(IdentityTokenInvalid):
        identity.key_id_of(token)
    with pytest.raises(IdentityTokenInvalid):
        check(token)


# -- the published keys


@pytest.fixture
def server() -> Iterator[IdentityServer]:
    """Yield a provider."""
    made = IdentityServer(issuer=ISSUERS[0], audience="app")
    yield made
    made.close()


@pytest.mark.anyio
async def test_provider_keys_are_read_once_for_concurrent_callers(
    http_client: HttpClient, server: IdentityServer
) -> None:
    keys = IdentityKeys(http_client, server.url)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(keys.get(KEY.kid)) for _ in range(20)]
    assert all(task.result() is not None for task in tasks)
    assert (await keys.get(EC_KEY.kid)) is not None
    assert server.hits == 1


@pytest.mark.anyio
async def test_new_provider_key_works_at_once_and_unknown_ids_are_looked_up_once_a_minute(
    http_client: HttpClient,
    server: IdentityServer,
) -> None:
    keys = IdentityKeys(http_client, server.url)
    assert await keys.get(KEY.kid) is not None
    server.keys["rsa-1"] = RSA_KEYS[1]
    assert await keys.get("rsa-1") is not None
    assert server.hits == 2
    server.keys["rsa-2"] = RSA_KEYS[2]
    for kid in ("rsa-2", "x", "y", "rsa-2"):
        assert await keys.get(kid) is None
    assert server.hits == 2
    assert await keys.get(KEY.kid) is not None


@pytest.mark.anyio
async def test_withdrawn_provider_key_is_gone_after_the_next_read(
    http_client: HttpClient, server: IdentityServer
) -> None:
    keys = IdentityKeys(http_client, server.url)
    assert await keys.get(KEY.kid) is not None
    del server.keys[KEY.kid]
    assert await keys.get("x") is None
    assert await keys.get(KEY.kid) is None


@pytest.mark.anyio
@pytest.mark.parametrize("fault", [0, 500, 404, 301, *GARBAGE])
async def test_unknown_key_id_is_unavailable_while_the_provider_does_not_answer(
    http_client: HttpClient, server: IdentityServer, fault: Any
) -> None:
    server.fault = fault
    keys = IdentityKeys(http_client, server.url)
    with pytest.raises(Unavailable) as caught:
        await keys.get(KEY.kid)
    assert caught.value.retry_after_seconds == 5
    assert server.hits <= 4  # one retry; the HTTP client itself repeats requests whose connection was closed
    hits = server.hits
    with pytest.raises(Unavailable):
        await keys.get(KEY.kid)
    assert server.hits == hits  # nor does every sign-in ask a provider that is down


@pytest.mark.anyio
async def test_known_provider_keys_keep_working_while_the_provider_is_down(
    http_client: HttpClient, server: IdentityServer
) -> None:
    keys = IdentityKeys(http_client, server.url)
    assert await keys.get(KEY.kid) is not None
    server.fault = 500
    with pytest.raises(Unavailable):
        await keys.get("rsa-1")
    assert await keys.get(KEY.kid) is not None
    assert server.hits == 3


@pytest.mark.anyio
async def test_single_provider_failure_is_retried(http_client: HttpClient, server: IdentityServer) -> None:
    real = server.answer

    def fail_once(path: str, headers: dict[str, str], body: bytes) -> Any:
        server.fault = 500 if server.hits == 0 else None
        return real(path, headers, body)

    server.answer = fail_once  # type: ignore[method-assign]
    assert await IdentityKeys(http_client, server.url).get(KEY.kid) is not None
    assert server.hits == 2


@pytest.mark.anyio
async def test_provider_keys_of_unused_types_are_ignored(http_client: HttpClient, server: IdentityServer) -> None:
    strange = [
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "ed"},
        {"kty": "new", "kid": "n"}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    ]  # fmt: skip
    server.fault = json.dumps({"keys": [*strange, KEY.published()]}).encode()
    keys = IdentityKeys(http_client, server.url)
    found = await keys.get(KEY.kid)
    assert found is not None
    assert check(signed(GOOD)) == identity.verify(
        signed(GOOD), found, audiences=AUDIENCES, issuers=ISSUERS, nonce=None, now=NOW
    )
    server.fault = json.dumps(
        {"keys": [KEY.published(), {**EC_KEY.published(), "kid": KEY.kid, "use": "enc"}]}
    ).encode()
    kept = await IdentityKeys(http_client, server.url).get(KEY.kid)
    assert kept is not None
    assert check(signed(GOOD)) == identity.verify(
        signed(GOOD), kept, audiences=AUDIENCES, issuers=ISSUERS, nonce=None, now=NOW
    )
    unusable = await keys.get("ed")
    if unusable is not None:
        with pytest.raises(IdentityTokenInvalid):
            identity.verify(signed(GOOD, kid="ed"), unusable, audiences=AUDIENCES, issuers=ISSUERS, nonce=None, now=NOW)
