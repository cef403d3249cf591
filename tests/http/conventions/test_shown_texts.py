"""Each field that another person sees refuses the same signs, over the whole interface (docs/product.md#texts)."""

import unicodedata
from typing import Any

import pytest

from tests.http.operators.steps import unique
from tests.stack import World, new_id
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

HIDDEN = ("\u202e", "\u200b", "\u2028", "\n", "\t", "\x07", "\x85", "\u00ad")
CONTROLS = ("\x07", "\x1b", "\x7f", "\x85")
NOTHING = ("\u3164", "\u2800", "\u115f\u1160", "\ufe0f", "\u034f", "\u200d\ufe0f", "\u0301", "\u200b", "  \u200b ")
HALF = ("\ud83d", "a\udc00")


def lines(root: Device, customer: Device, text: str) -> dict[str, tuple[Device, str, str, Any]]:
    """Return the calls that store a line; the key is the field that a refusal names."""
    mail = {"label": "Mail", "deeplink": "mailto:help@example.test"}
    support = {"primary": {**mail, "label": text}, "secondary": mail}
    topics = {"topics": ["kerja", text]}
    return {
        "display_name of a customer": (customer, "PATCH", "/api/client/auth/profile", {"display_name": text}),
        "display_name of a mitra": (root, "POST", "/internal/mitras", {"phone": "081234567890", "display_name": text}),
        "display_name of an operator": (
            root, "POST", "/internal/operators", {"email": "a@example.test", "display_name": text, "role_id": new_id()},
        ),
        "name of a role": (root, "POST", "/internal/roles", {"name": text, "permissions": {}}),
        "tag of a tier": (root, "POST", "/internal/pricing/tiers", {"mode": "chat", "minutes": 7, "price_idr": 1, "tag": text}),
        "value of a support label": (root, "PUT", "/internal/config/support_handles", {"value": support}),
        "topics of a request": (
            customer, "POST", "/api/client/payment/requests", {"mode": "chat", "duration_minutes": 12, **topics},
        ),
        "topics of a returning request": (
            customer, "POST", "/api/client/chat/returning",
            {"mitra_id": new_id(), "mode": "chat", "duration_minutes": 12, **topics},
        ),
    }  # fmt: skip


def texts(root: Device, customer: Device, text: str) -> dict[str, tuple[Device, str, str, Any]]:
    """Return the calls that store a text; the key is the field that a refusal names."""
    some, session = new_id(), f"/api/shared/chat/sessions/{new_id()}"
    notice = {"message_id": text, "message_en": "Soon", "until": None}
    return {
        "message of a goodbye": (customer, "POST", f"{session}/closure", {"message": text}),
        "content of a message": (customer, "POST", f"{session}/messages", {"client_message_id": some, "content": text}),
        "reason of an end": (root, "POST", f"/internal/sessions/{some}/end", {"reason": text}),
        "note of an action": (
            root, "PATCH", f"/internal/failed-pairings/{some}", {"operator_action": "no_action", "note": text},
        ),
        "reason of a refund": (root, "POST", f"/internal/failed-pairings/{some}/refund", {"reason": text}),
        "value of a notice": (root, "PUT", "/internal/config/maintenance", {"value": notice}),
    }  # fmt: skip


async def outcomes(calls: dict[str, tuple[Device, str, str, Any]]) -> dict[str, tuple[int, list[str]]]:
    """Send the calls; return the status of each, and the fields that it names."""
    seen = {}
    for name, (client, method, path, body) in calls.items():
        try:
            await client.call(method, path, body)
            seen[name] = (200, [])
        except Refused as no:
            seen[name] = (
                no.status,
                [
                    field["field"].partition("[")[0]
                    for field in (no.body["error"].get("details") or {}).get("fields", [])
                ],
            )
    return seen


async def test_every_field_that_others_see_refuses_the_same_signs(world: World) -> None:
    root, customer = await world.operator(), await world.customer()
    bad = [f"De{sign}wi" for sign in HIDDEN + HALF] + list(NOTHING)
    for text in bad:
        calls = lines(root, customer, text)
        assert await outcomes(calls) == {name: (422, [name.split()[0]]) for name in calls}, ascii(text)
    for text in [f"De{sign}wi" for sign in CONTROLS + HALF] + list(NOTHING):
        calls = texts(root, customer, text)
        assert await outcomes(calls) == {name: (422, [name.split()[0]]) for name in calls}, ascii(text)


async def test_names_are_kept_in_nfc_and_half_characters_in_unknown_fields_are_refused(world: World) -> None:
    customer = await world.customer()
    name = unique("Jose\u0301 \u202fZoe\u0308")
    path = "/api/client/auth/profile"
    kept = (await customer.call("PATCH", path, {"display_name": f" {name} "}))["display_name"]
    assert kept == unicodedata.normalize("NFC", name) != name
    calls = {"\ufffd": (customer, "PATCH", path, {"display_name": "Dewi", "\ud83d": 1})}
    assert await outcomes(calls) == {"\ufffd": (422, ["\ufffd"])}
