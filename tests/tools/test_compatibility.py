"""A change that breaks clients of the last release is found; an addition is not."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest

from tools.compatibility import compare

Documents = dict[str, Any]
REQUESTS = "/api/client/payment/requests"


@functools.cache
def now() -> Documents:
    """Return the documents of the present code. They are built once, and not while tests are collected."""
    return compare.documents()


def public(documents: Documents) -> Any:
    return documents["public.openapi.json"]


def schemas(documents: Documents) -> Any:
    return public(documents)["components"]["schemas"]


def frames(documents: Documents) -> Any:
    return documents["sockets.asyncapi.json"]["components"]["schemas"]


def operation(documents: Documents) -> Any:
    return public(documents)["paths"][REQUESTS]["post"]


def field(documents: Documents, name: str) -> Any:
    return schemas(documents)["PaymentBody"]["properties"][name]


def sockets(documents: Documents) -> Any:
    return documents["sockets.asyncapi.json"]


BREAKING: dict[str, Callable[[Documents], Any]] = {
    f"public: POST {REQUESTS} is removed": lambda d: public(d)["paths"][REQUESTS].pop("post"),
    "public: GET /api/client/chat/pricing is removed": lambda d: public(d)["paths"].pop("/api/client/chat/pricing"),
    f"public: POST {REQUESTS} no longer answers 201": lambda d: operation(d)["responses"].pop("201"),
    f"public: POST {REQUESTS} no longer answers 409 SESSION_IN_PROGRESS": lambda d: operation(d)["responses"]["409"][
        "content"
    ]["application/json"]["examples"].pop("SESSION_IN_PROGRESS"),
    f"public: POST {REQUESTS}: header parameter Idempotency-Key is removed": lambda d: operation(d)["parameters"].pop(
        0
    ),
    f"public: POST {REQUESTS}: header parameter X-New is now required": lambda d: operation(d)["parameters"].append(
        {"name": "X-New", "in": "header", "required": True, "schema": {"type": "string"}}
    ),
    "public: PaymentRequest.amount is removed": lambda d: schemas(d)["PaymentRequest"]["properties"].pop("amount"),
    "public: PaymentRequest.amount may now be absent": lambda d: schemas(d)["PaymentRequest"]["required"].remove(
        "amount"
    ),
    "public: PaymentRequest.amount may now be null": lambda d: schemas(d)["PaymentRequest"]["properties"][
        "amount"
    ].update(type=["integer", "null"]),
    "public: PaymentBody.topics is removed": lambda d: schemas(d)["PaymentBody"]["properties"].pop("topics"),
    "public: PaymentBody.mode is now required": lambda d: (
        schemas(d)["PaymentBody"].setdefault("required", []).append("mode")
    ),
    "public: AnswerBody.accept no longer accepts boolean": lambda d: schemas(d)["AnswerBody"]["properties"].update(
        accept={"type": "string"}
    ),
    "public: POST /api/client/auth/otp/verify now needs a token": lambda d: public(d)["paths"][
        "/api/client/auth/otp/verify"
    ]["post"].update(security=[{"bearerAuth": []}]),
    f"public: GET {REQUESTS} no longer accepts bearerAuth": lambda d: public(d)["paths"][REQUESTS]["get"].update(
        security=[{"other": []}]
    ),
    "public: Error.error.code is removed": lambda d: schemas(d)["Error"]["properties"]["error"]["properties"].pop(
        "code"
    ),
    f"public: GET {REQUESTS}: query parameter limit is removed": lambda d: [
        one.update({"in": "header"})
        for one in public(d)["paths"][REQUESTS]["get"]["parameters"]
        if one.get("name") == "limit"
    ],
    "internal: OperatorTokens.access_token is removed": lambda d: d["internal.openapi.json"]["components"]["schemas"][
        "OperatorTokens"
    ]["properties"].pop("access_token"),
    "sockets: chat moves from /ws/chat to /v2/ws": lambda d: sockets(d)["channels"]["chat"].update(address="/v2/ws"),
    "sockets: pairing is removed": lambda d: sockets(d)["channels"].pop("pairing"),
    "sockets: chat.typing is removed": lambda d: sockets(d)["operations"].pop("chat.typing"),
    "sockets: Read.up_to: maximum falls from 2147483647 to 9": lambda d: frames(d)["Read"]["properties"][
        "up_to"
    ].update(maximum=9),
    "sockets: MessageAck.seq is removed": lambda d: frames(d)["MessageAck"]["properties"].pop("seq"),
    "sockets: chat: close code 4409 is removed": lambda d: [
        channel.update({"x-close-codes": [one for one in channel["x-close-codes"] if one["code"] != 4409]})
        for name, channel in sockets(d)["channels"].items()
        if name == "chat"
    ],
    "errors: OTP_INVALID is removed": lambda d: d["errors.json"].pop("OTP_INVALID"),
    "errors: NOT_FOUND changes its status from 404 to 410": lambda d: d["errors.json"].update(NOT_FOUND=410),
}
ADDITIONS: dict[str, Callable[[Documents], Any]] = {
    "a path": lambda d: public(d)["paths"].update({"/new": public(d)["paths"][REQUESTS]}),
    "an optional field of a body": lambda d: schemas(d)["PaymentBody"]["properties"].update(note={"type": "string"}),
    "a field of an answer": lambda d: schemas(d)["PaymentRequest"]["properties"].update(note={"type": "string"}),
    "a looser bound": lambda d: frames(d)["Read"]["properties"]["up_to"].update(minimum=-1),
    "a value of an enum called type": lambda d: schemas(d)["Transaction"]["properties"]["type"]["enum"].insert(
        0, "tip"
    ),
    "a route without a token": lambda d: operation(d).update(security=[]),
    "a code": lambda d: d["errors.json"].update(NEW_CODE=409),
}


@pytest.mark.parametrize("line", BREAKING)
def test_breaking_change_is_reported_and_nothing_else(line: str) -> None:
    changed = copy.deepcopy(now())
    BREAKING[line](changed)
    found = compare.breaking(now(), changed)
    assert line in found
    # A part that several routes share is reported where each of them has it.
    assert {one.rpartition(".")[2] for one in found} == {line.rpartition(".")[2]}


@pytest.mark.parametrize("what", ADDITIONS)
def test_addition_is_not_reported(what: str) -> None:
    changed = copy.deepcopy(now())
    ADDITIONS[what](changed)
    assert changed != now()
    assert compare.breaking(now(), changed) == []


def test_interfaces_keep_what_the_last_release_had() -> None:
    assert compare.check() == []


def test_declared_change_is_accepted_and_a_stale_declaration_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    earlier = copy.deepcopy(now())
    earlier["errors.json"]["OLD_CODE"] = 400
    monkeypatch.setattr(compare, "released", lambda: earlier)
    monkeypatch.setattr(compare, "DECLARED", tmp_path / "changes.toml")
    compare.DECLARED.write_text(compare.EMPTY)
    assert compare.check() == ["breaks clients: errors: OLD_CODE is removed"]
    compare.DECLARED.write_text('[[change]]\nwhat = "errors: OLD_CODE is removed"\nwhy = "nothing sends it"\n')
    assert compare.check() == []
    monkeypatch.setattr(compare, "released", now)
    assert compare.check() == ["declared, but not so: errors: OLD_CODE is removed"]
