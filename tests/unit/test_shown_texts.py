"""Texts that other people see: each field refuses the same signs (docs/product.md#texts)."""

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.internal import dev_seed, failed_pairings, pricing, sessions
from api.public import pairing, payments
from api.request_bodies import structure
from core.base import names, shown_texts
from core.base.errors import ValidationFailed
from core.config.keys import KEYS
from core.config.rules import check, with_checked_texts
from core.payments.pricing.rules import check_tier, checked_tag
from core.payments.refunds.rules import checked_note
from core.sessions.messages.rules import check_message

ID = "01900000-0000-7000-8000-000000000008"
# Code points that show nothing although their category is that of letters or symbols, and others that show nothing.
BLANK = "\u115f\u1160\u3164\uffa0\u2800\u034f\ufe0f\u200d\u200b\u00ad\u2065\ue000\U000e0001\U000e0100\u17b4\u180b\u0301"
FORMATS = "\u202e\u2066\u200e\ufeff\u00ad\u200b\u061c\U000e0041"


def notice(text: str) -> str:
    value = {"message_id": text, "message_en": "Maintenance", "until": None}
    kept = with_checked_texts(KEYS["maintenance"], value)
    check(KEYS["maintenance"], kept)
    return kept["message_id"]


def label(text: str) -> str:
    other = {"label": "Mail", "deeplink": "mailto:help@example.test"}
    value = {"primary": {**other, "label": text}, "secondary": other}
    kept = with_checked_texts(KEYS["support_handles"], value)
    check(KEYS["support_handles"], kept)
    return kept["primary"]["label"]


@pytest.mark.parametrize(
    "wrong", [{"message_id": ""}, {"message_en": "e" * 501}, {"message_id": "", "until": "soon"}, {"message_en": None}]
)
def test_notice_of_another_form_is_told_the_whole_form(wrong: dict[str, Any]):
    value = {"message_id": "Pemeliharaan", "message_en": "Maintenance", "until": None} | wrong
    with pytest.raises(ValidationFailed) as refusal:
        check(KEYS["maintenance"], with_checked_texts(KEYS["maintenance"], value))
    assert "message_id, message_en, until" in str(refusal.value.details)


def topic(cls: Any, **more: Any) -> Callable[[str], str]:
    return lambda text: structure({"topics": [text], **more}, cls).topics[0]


def tag(text: str) -> str | None:
    check_tier(mode="chat", minutes=5, price_idr=1, tag=text)
    return checked_tag(text)


def message(text: str) -> str:
    check_message(message_type="text", content=text, metadata=None)
    return text


def prose(text: str) -> str:
    shown_texts.check_text("message", text, most=1000)
    return text


# Each field that another person sees -> the function that reads it, and its length.
LINES: dict[str, tuple[Callable[[str], Any], int]] = {
    "name": (names.checked, 100),
    "topic of a request": (topic(payments.PaymentBody, mode="chat"), 64),
    "topic of a returning request": (topic(pairing.ReturningBody, mitra_id=ID, mode="chat", duration_minutes=5), 64),
    "topic of a seeded session": (topic(dev_seed.HistoryBody, customer_id=ID, mitra_id=ID), 64),
    "tag": (tag, 100),
    "label": (label, 500),
}
TEXTS: dict[str, tuple[Callable[[str], Any], int]] = {
    "message": (message, 4000),
    "goodbye and reason": (prose, 1000),
    "note": (lambda text: checked_note("note", text), 500),
    "notice": (notice, 500),
}


def is_refused(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValidationFailed:
        return True
    return False


SIGNS = st.one_of(
    st.characters(),
    st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Cs"]),
    st.sampled_from(BLANK + FORMATS + "\u200c\u200d\t\n\r"),
)


@given(SIGNS)
@example("\0")
@example("\x85")
@example("\u2028")
@example("\ud83d")
def test_each_line_refuses_the_same_signs(sign: str):
    hidden = unicodedata.category(sign) in {"Cc", "Cf", "Zl", "Zp", "Cs"} and sign not in "\u200c\u200d"
    for text in (f"De{sign}wi", f"{sign}Dewi", f"Dewi{sign}"):
        expected = hidden and (text[2] == sign or sign not in "\t\n\r")  # which are trimmed at the ends
        assert {name: is_refused(read, text) for name, (read, _) in LINES.items()} == dict.fromkeys(LINES, expected), (
            text
        )


@given(SIGNS)
@example("\0")
@example("\x7f")
@example("\x85")
@example("\u202e")
@example("\ud83d")
def test_each_text_refuses_the_same_signs(sign: str):
    category = unicodedata.category(sign)
    control = category == "Cs" or (category == "Cc" and sign not in "\t\n\r")
    for text in (f"De{sign}wi", f"{sign}Dewi", f"Dewi{sign}"):
        assert {name: is_refused(read, text) for name, (read, _) in TEXTS.items()} == dict.fromkeys(TEXTS, control), (
            text
        )


@given(st.text(alphabet=BLANK + FORMATS + " \u00a0\u3000\u2003", min_size=1, max_size=5))
def test_text_that_shows_nothing_is_refused_everywhere(text: str):
    for name, (read, _) in (LINES | TEXTS).items():
        assert is_refused(read, text), name


@pytest.mark.parametrize(
    "text", ["a", "\U0001f469\u200d\U0001f52c", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u5c0f\u6797", "!"]
)
def test_visible_text_is_accepted_everywhere(text: str):
    assert all(read(text) == text for read, _ in (LINES | TEXTS).values())


@pytest.mark.parametrize("text", ["Jose\u0301", "Zoe\u0308", "\u212bsa", "\u1100\u1161"])
def test_lines_are_kept_in_nfc_and_texts_as_sent(text: str):
    for name, (read, _) in LINES.items():
        assert read(f" {text} ") == unicodedata.normalize("NFC", text) != text, name
    for name, (read, _) in TEXTS.items():
        assert read(f" {text} ") == f" {text} ", name


def test_lengths_are_those_after_nfc():
    for name, (read, most) in (LINES | TEXTS).items():
        assert not is_refused(read, "e\u0301" * most), name
        assert is_refused(read, "e\u0301" * most + "e"), name
        assert is_refused(read, "\u0958" * most), name  # one character that NFC writes as two


@pytest.mark.parametrize(
    ("cls", "field", "most"),
    [(sessions.EndBody, "reason", 500), (failed_pairings.RefundBody, "reason", 500), (pricing.TierBody, "tag", 100)],
)
def test_bodies_count_the_length_after_nfc(cls: Any, field: str, most: int):
    more = {"mode": "chat", "minutes": 5, "price_idr": 1} if cls is pricing.TierBody else {}
    assert getattr(structure({field: "e\u0301" * most, **more}, cls), field) == "e\u0301" * most
    with pytest.raises(ValidationFailed):
        structure({field: "e" * (most + 1), **more}, cls)
