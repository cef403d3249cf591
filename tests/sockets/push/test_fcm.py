"""The FCM adapter against a simulated provider: what it sends, and what each answer means."""

import asyncio
import datetime as dt
import email.utils
import json
import pathlib
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import attrs
import jwt
import pytest

from core.base.clock import UTC, Clock, monotonic
from core.providers import push_sender
from core.providers.http_client import HttpClient
from core.providers.push_sender import (
    DeadToken,
    Fcm,
    Later,
    LogPushSender,
    Notification,
    PushRefused,
    Sent,
    make_push_sender,
)
from core.settings.environment import read
from core.settings.settings import SettingsError
from tests.sockets.push.odd_provider import odd_provider, said
from tests.stack import new_id
from tools.driving.push_inbox import ACCESS_TOKEN, PROJECT, PushInbox

pytestmark = pytest.mark.anyio


def error(status: int, name: str, fcm: str | None = None, **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return an error in the provider's format."""
    details: list[dict[str, Any]] = [{"@type": "type.googleapis.com/google.rpc.BadRequest"}]
    if fcm is not None:
        details.append({"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": fcm})
    body = {"error": {"code": status, "message": "no", "status": name, "details": details}}
    return status, body, {name.replace("_", "-"): value for name, value in headers.items()}


def about_field(name: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the error of a request with an invalid field, in the provider's format."""
    status, body, headers = error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    body["error"]["details"][0]["fieldViolations"] = [{"field": name, "description": "Invalid"}]
    return status, body, headers


@pytest.fixture(scope="module")
def provider() -> Iterator[PushInbox]:
    """Yield the simulated provider."""
    made = PushInbox()
    yield made
    made.close()


@pytest.fixture
def inbox(provider: PushInbox) -> PushInbox:
    """Return the simulated provider, which has received nothing."""
    provider.messages.clear()
    provider.token_requests.clear()
    provider.answer = lambda _: None
    return provider


def clock() -> Clock:
    """Return the service's clock."""
    return Clock(anchor=dt.datetime(2026, 11, 21, tzinfo=UTC), scale=60)


def sender(http_client: HttpClient, inbox: PushInbox, **changed: str) -> Fcm:
    """Return the adapter as the settings create it."""
    made = make_push_sender(read({**inbox.environment, **changed}), clock(), http_client)
    assert isinstance(made, Fcm)
    return made


def sender_with_token_uri(http_client: HttpClient, inbox: PushInbox, token_uri: str, folder: pathlib.Path) -> Fcm:
    """Return the adapter with a service account whose tokens come from another address."""
    account = json.loads(pathlib.Path(inbox.environment["FCM_CREDENTIALS_FILE"]).read_text())
    path = folder / "account.json"
    path.write_text(json.dumps({**account, "token_uri": token_uri}))
    return sender(http_client, inbox, FCM_CREDENTIALS_FILE=str(path))


def a_push(*, urgent: bool = True, ttl_s: float = 17.5, token: str = "a-device") -> Notification:
    """Return a push."""
    data = {
        "action": "open_accept",
        "event": "chat_request",
        "event_id": new_id(),
        "title": "Permintaan",
        "body": "Terima?",
    }
    return Notification(
        token=token,
        data=data,
        urgent=urgent,
        is_silent=False,
        expires_at=dt.datetime.now(UTC) + dt.timedelta(seconds=ttl_s),
    )


@pytest.fixture
async def fcm(http_client: HttpClient, inbox: PushInbox) -> Fcm:
    """Return the adapter in front of the simulated provider."""
    return sender(http_client, inbox)


async def test_token_grant_is_signed_by_the_service_account_and_short_lived(inbox: PushInbox, fcm: Fcm) -> None:
    assert await fcm.send(a_push(), attempt=1) == Sent()
    (asked,) = inbox.token_requests
    form = urllib.parse.parse_qs(asked["body"])
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    (assertion,) = form["assertion"]
    assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "kid": "key-1", "typ": "JWT"}
    claims = jwt.decode(assertion, inbox.public_key, algorithms=["RS256"], audience=f"{inbox.url}/token")
    assert (claims["iss"], claims["scope"]) == (
        "push@sesi.test",
        "https://www.googleapis.com/auth/firebase.messaging",
    )
    assert abs(claims["iat"] - time.time()) < 60  # real time, whatever the time scale
    assert 0 < claims["exp"] - claims["iat"] <= 3600


async def test_concurrent_pushes_share_one_access_token(inbox: PushInbox, fcm: Fcm) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fcm.send(a_push(), attempt=1)) for _ in range(20)]
    assert [task.result() for task in tasks] == [Sent()] * 20
    assert await fcm.send(a_push(), attempt=1) == Sent()
    assert (len(inbox.messages), len(inbox.token_requests)) == (21, 1)


@pytest.mark.parametrize(("urgent", "priority", "apns"), [(True, "HIGH", "10"), (False, "NORMAL", "5")])
async def test_message_has_the_fields_of_both_platforms(
    inbox: PushInbox, fcm: Fcm, urgent: bool, priority: str, apns: str
) -> None:
    push = a_push(urgent=urgent)
    before = time.time()
    await fcm.send(push, attempt=1)
    (message,) = inbox.messages
    expires_at = int(message["apns"]["headers"].pop("apns-expiration"))
    assert before + 15 < expires_at < time.time() + 18
    assert message["android"].pop("ttl") in ("17s", "16s", "15s")  # 17.5 s, less the time until the call
    words = {"title": "Permintaan", "body": "Terima?"}
    assert message == {
        "token": "a-device",
        "data": push.data,
        "notification": words,
        "android": {"priority": priority, "collapse_key": push.data["event_id"]},
        "apns": {
            "headers": {
                "apns-priority": apns,
                "apns-push-type": "alert",
                "apns-collapse-id": push.data["event_id"],
            },
            "payload": {"aps": {"alert": words, "sound": "default"}},
        },
    }
    assert len(json.dumps(message)) < 4096


async def test_silent_message_wakes_the_app_and_shows_nothing(inbox: PushInbox, fcm: Fcm) -> None:
    data = {"action": "presence_check", "event": "presence_check", "event_id": new_id()}
    push = attrs.evolve(a_push(urgent=False, ttl_s=7.5), data=data, is_silent=True)
    await fcm.send(push, attempt=1)
    (message,) = inbox.messages
    assert message["apns"]["headers"].pop("apns-expiration") == str(int(push.expires_at.timestamp()))
    assert message["android"].pop("ttl") in ("7s", "6s", "5s")
    assert message == {
        "token": "a-device",
        "data": data,
        "android": {"priority": "HIGH", "collapse_key": data["event_id"]},
        "apns": {
            "headers": {
                "apns-priority": "5",
                "apns-push-type": "background",
                "apns-collapse-id": data["event_id"],
            },
            "payload": {"aps": {"content-available": 1}},
        },
    }


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (error(404, "NOT_FOUND", "UNREGISTERED"), DeadToken()),
        (error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"), DeadToken()),
        (error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"), PushRefused()),
        (error(400, "INVALID_ARGUMENT"), PushRefused()),
        (about_field("message.token"), DeadToken()),
        (about_field("message.data"), PushRefused()),
        (error(403, "PERMISSION_DENIED"), PushRefused()),
        (error(404, "NOT_FOUND"), PushRefused()),  # a wrong project: no reason to delete a device's token
        ((404, {}, {}), PushRefused()),
        ((302, {}, {"Location": "https://elsewhere.example.test/"}), PushRefused()),
        (error(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), Later(after_s=push_sender.CONFIGURATION_S)),
        (error(401, "UNAUTHENTICATED", "APNS_AUTH_ERROR"), Later(after_s=push_sender.CONFIGURATION_S)),
        (error(401, "UNAUTHENTICATED"), Later(after_s=1.0)),
        (error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), Later(after_s=60)),
        (error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Retry_After="7"), Later(after_s=7)),
        (error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Retry_After="soon"), Later(after_s=60)),
        (error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Retry_After="9" * 20), Later(after_s=3600)),
        (
            error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Retry_After="Sun, 06 Nov 1994 08:49:37 GMT"),
            Later(after_s=60),
        ),
        (error(503, "UNAVAILABLE", "UNAVAILABLE", Retry_After="4"), Later(after_s=4)),
        (error(503, "UNAVAILABLE", "UNAVAILABLE", Retry_After="Sun, 06 Nov 2094 08:49:37 GMT"), Later(after_s=3600)),
    ],
)
async def test_each_provider_answer_maps_to_its_result(inbox: PushInbox, fcm: Fcm, answer: Any, outcome: Any) -> None:
    inbox.answer = lambda _: answer
    assert await fcm.send(a_push(), attempt=1) == outcome
    assert len(inbox.messages) == 1


@pytest.mark.parametrize(("status", "name"), [(500, "INTERNAL"), (503, "UNAVAILABLE"), (502, "BAD_GATEWAY")])
async def test_provider_that_is_down_is_retried_with_growing_pauses(
    inbox: PushInbox, fcm: Fcm, status: int, name: str
) -> None:
    inbox.answer = lambda _: error(status, name, name)
    pauses = []
    for attempt in (1, 2, 3, 5, 50):
        outcome = await fcm.send(a_push(), attempt=attempt)
        assert isinstance(outcome, Later)
        pauses.append(outcome.after_s)
    for pause, middle in zip(pauses, (2, 4, 8, 32, 60), strict=True):
        assert middle * 0.5 <= pause <= middle * 1.5  # with jitter


async def test_refused_access_token_is_replaced(inbox: PushInbox, fcm: Fcm) -> None:
    answers = [error(401, "UNAUTHENTICATED"), None]
    inbox.answer = lambda _: answers.pop(0)
    assert await fcm.send(a_push(), attempt=1) == Later(after_s=1.0)
    assert await fcm.send(a_push(), attempt=2) == Sent()
    assert len(inbox.token_requests) == 2


async def test_retry_after_may_be_a_date(inbox: PushInbox, fcm: Fcm) -> None:
    until = email.utils.format_datetime(dt.datetime.now(UTC) + dt.timedelta(minutes=10), usegmt=True)
    inbox.answer = lambda _: error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Retry_After=until)
    outcome = await fcm.send(a_push(), attempt=1)
    assert isinstance(outcome, Later)
    assert 590 < outcome.after_s <= 600


@pytest.mark.parametrize("code", ["THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"])
async def test_failing_apns_key_does_not_replace_the_access_token(inbox: PushInbox, fcm: Fcm, code: str) -> None:
    inbox.answer = lambda _: error(401, "UNAUTHENTICATED", code)
    for _ in range(3):
        await fcm.send(a_push(), attempt=1)
    assert len(inbox.token_requests) == 1


async def test_expired_push_is_sent_with_a_ttl_of_zero(inbox: PushInbox, fcm: Fcm) -> None:
    push = a_push(ttl_s=-1)
    await fcm.send(push, attempt=1)
    (message,) = inbox.messages
    assert message["android"]["ttl"] == "0s"
    assert message["apns"]["headers"]["apns-expiration"] == str(int(push.expires_at.timestamp()))


OK = said(200, b'{"name": "projects/p/messages/1"}')
GARBAGE = [
    b"",
    b"nonsense\r\n\r\n",
    said(503, b"\x00\xff<html>"),
    said(500, b"[]"),
    said(500, b'{"error": 7}'),
    said(503, b'{"error": {"details": 5}}'),
    said(503, b'{"error": {"details": [null, {"@type": 7}]}}'),
    said(503, b"{}", "Retry-After: \u00b2"),
    said(503, b"{", "Retry-After: -1"),
    said(503, b"[" * 100_000 + b"]" * 100_000),
]


@pytest.mark.parametrize("answer", GARBAGE)
async def test_unreadable_answer_is_retried_later(http_client: HttpClient, inbox: PushInbox, answer: bytes) -> None:
    async with odd_provider(answer) as (url, heard):
        assert isinstance(await sender(http_client, inbox, FCM_BASE_URL=url).send(a_push(), attempt=1), Later)
        assert len(heard) == 1


@pytest.mark.parametrize("body", [b"\x00\xff<html>", b"[]", b'{"error": 7}', b'{"error": {"details": "UNREGISTERED"}}'])
@pytest.mark.parametrize("status", [400, 403, 404])
async def test_unreadable_refusal_keeps_the_push_token(
    http_client: HttpClient, inbox: PushInbox, status: int, body: bytes
) -> None:
    async with odd_provider(said(status, body)) as (url, _):
        assert await sender(http_client, inbox, FCM_BASE_URL=url).send(a_push(), attempt=1) == PushRefused()


async def test_provider_timeout_is_retried_later(inbox: PushInbox, fcm: Fcm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert push_sender.TIMEOUT_S == 5
    assert await fcm.send(a_push(), attempt=1) == Sent()  # within the real limit; the access token is kept
    monkeypatch.setattr(push_sender, "TIMEOUT_S", 0.3)
    inbox.answer = lambda _: time.sleep(1)
    assert isinstance(await fcm.send(a_push(), attempt=1), Later)


TOKENS_AWAY = [
    b"",
    said(500, b"{}"),
    said(400, b'{"error": "invalid_grant"}'),
    said(200, b"<html>"),
    said(200, b"[]"),
    said(200, b'{"access_token": 7}'),
    said(200, b'{"access_token": "x", "expires_in": "soon"}'),
]


@pytest.mark.parametrize("answer", TOKENS_AWAY)
async def test_missing_access_token_sends_nothing_and_shares_one_attempt(
    http_client: HttpClient, inbox: PushInbox, tmp_path: Any, answer: bytes
) -> None:
    async with odd_provider(answer) as (url, heard):
        fcm = sender_with_token_uri(http_client, inbox, url + "/token", tmp_path)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(fcm.send(a_push(), attempt=1)) for _ in range(20)]
        assert all(isinstance(task.result(), Later) for task in tasks)
        assert len(heard) == 1
    assert inbox.messages == []


async def test_access_token_is_renewed_before_it_expires(
    http_client: HttpClient, inbox: PushInbox, tmp_path: Any
) -> None:
    answer = said(200, json.dumps({"access_token": ACCESS_TOKEN, "expires_in": 1}).encode())
    async with odd_provider(answer) as (url, heard):
        fcm = sender_with_token_uri(http_client, inbox, url + "/token", tmp_path)
        async with asyncio.timeout(5):
            while len(heard) < 2:
                assert await fcm.send(a_push(), attempt=1) == Sent()
                await asyncio.sleep(0.05)


async def test_access_token_is_used_until_it_expires_if_renewal_fails(
    http_client: HttpClient, inbox: PushInbox, tmp_path: Any
) -> None:
    good = said(200, json.dumps({"access_token": ACCESS_TOKEN, "expires_in": 10}).encode())
    for answer in (said(503, b"{}"), b""):
        async with odd_provider(good, answer) as (url, heard):
            fcm = sender_with_token_uri(http_client, inbox, url + "/token", tmp_path)
            assert await fcm.send(a_push(), attempt=1) == Sent()
            fcm._account._renew_at = monotonic()  # four fifths of its lifetime have passed
            assert await fcm.send(a_push(), attempt=1) == Sent()
            assert len(heard) == 2
            fcm._account.discard()
            assert isinstance(await fcm.send(a_push(), attempt=1), Later)


def test_push_token_is_not_in_the_text_of_a_notification() -> None:
    assert "a-secret-device" not in repr(a_push(token="a-secret-device"))


def test_log_sender_is_the_default() -> None:
    assert isinstance(make_push_sender(read({}), clock(), HttpClient()), LogPushSender)


@pytest.mark.parametrize(
    "content",
    [
        *(None, "", "{", "[]", "{}", "\x00"),
        '{"client_email": "x", "token_uri": "https://x", "private_key": "garbage"}',
        '{"client_email": 7, "token_uri": "https://x", "private_key": "x"}',
    ],
)
def test_unreadable_credentials_are_named(tmp_path: Any, content: str | None) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_text(content)
    settings = read({"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": PROJECT, "FCM_CREDENTIALS_FILE": str(path)})
    with pytest.raises(SettingsError, match=r"^FCM_CREDENTIALS_FILE: expected .*private_key and token_uri$"):
        make_push_sender(settings, clock(), HttpClient())


def test_missing_credentials_file_is_named(tmp_path: Any) -> None:
    settings = read({"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": PROJECT, "FCM_CREDENTIALS_FILE": str(tmp_path)})
    with pytest.raises(SettingsError, match="FCM_CREDENTIALS_FILE"):
        make_push_sender(settings, clock(), HttpClient())
    for unset in ("FCM_PROJECT_ID", "FCM_CREDENTIALS_FILE"):
        with pytest.raises(SettingsError, match=unset):
            read({"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": "p", "FCM_CREDENTIALS_FILE": "f", unset: ""})


def test_fcm_tokens_over_plain_http_are_refused_in_production(inbox: PushInbox, tmp_path: pathlib.Path) -> None:
    account = json.loads(pathlib.Path(inbox.environment["FCM_CREDENTIALS_FILE"]).read_text())
    path = tmp_path / "account.json"
    path.write_text(json.dumps({**account, "token_uri": "http://tokens.example/token"}))
    production = {
        "ENVIRONMENT": "production",
        "JWT_SECRETS": "k1:" + "s" * 32,
        "GATEWAY_CALLBACK_TOKEN": "a-token-of-our-own-of-thirty-two",
        "ERASURE_HASH_KEYS": "e" * 32,
        "RECEIPT_SIGNING_KEYS": "k1:" + "ab" * 32,
        "GATEWAY_ENABLED": "false",
        "OTP_SENDER": "log",
        "PUSH_SENDER": "fcm",
        "FCM_PROJECT_ID": PROJECT,
        "FCM_CREDENTIALS_FILE": str(path),
    }
    with pytest.raises(SettingsError, match=r"^FCM_CREDENTIALS_FILE: expected a token_uri with https://"):
        make_push_sender(read(production), clock(), HttpClient())
    make_push_sender(read({**production, "ALLOW_PLAINTEXT_BACKENDS": "true"}), clock(), HttpClient())
