"""The numbers and the signed text of a receipt, and who can tell that it was changed."""

import datetime as dt
import json

import hypothesis.strategies as st
import jwt
import msgspec
import pytest
from hypothesis import given

from core.base.field_types import Id, SessionId
from core.cluster.outages.rules import merged
from core.sessions.receipts import rules, signing
from core.sessions.receipts.rules import Prolonged, Receipt, SignedReceipt
from core.sessions.receipts.signing import JwkSet, NotValid, ReceiptKeys

AT = dt.datetime(2026, 11, 21, 6, 30, tzinfo=dt.UTC)
SECOND, MINUTE = dt.timedelta(seconds=1), dt.timedelta(minutes=1)
OLD, NEW = ("2025", b"o" * 32), ("2026", b"n" * 32)
# RFC 8032, 7.1, test 3: a seed, its public key, a text and the signature.
SEED = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
PUBLIC = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
SIGNATURE = (
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)
RECEIPT = Receipt(
    session_id=SessionId(Id("019aa4b6-5f00-7000-8000-000000005001")),
    seconds_paid=720,
    seconds_both_could_talk=711,
    seconds_credited=9,
    messages=4,
    digest="5e2bf57d3f40c4b6df69daf1936cb766f832374b4fc0259a7cbff06e2f70f269",
    completed_at="2026-11-21T06:48:00.250000Z",
)


def document(keys: ReceiptKeys, receipt: Receipt = RECEIPT) -> bytes:
    key_id, signature = keys.sign(rules.canonical(receipt))
    return msgspec.json.encode(SignedReceipt(receipt=receipt, key_id=key_id, signature=signature))


def test_signed_text_is_json_with_sorted_keys_and_no_spaces() -> None:
    fields = {**msgspec.to_builtins(RECEIPT)}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert rules.canonical(RECEIPT).decode() == text
    assert text.startswith('{"completed_at":"2026-11-21T06:48:00.250000Z","digest":"5e2b')


def test_signature_and_public_key_are_those_of_the_rfc() -> None:
    keys = ReceiptKeys([("rfc", SEED)])
    key_id, signature = keys.sign(bytes.fromhex("af82"))
    assert (key_id, signing._bytes_of(signature, size=64).hex()) == ("rfc", SIGNATURE)
    (jwk,) = keys.jwk_set().keys
    assert (jwk.kty, jwk.crv, jwk.kid, signing._bytes_of(jwk.x, size=32).hex()) == ("OKP", "Ed25519", "rfc", PUBLIC)


def test_receipt_of_a_retired_key_is_valid_while_its_key_is_published() -> None:
    old = document(ReceiptKeys([OLD]))
    rotated = ReceiptKeys([NEW, OLD])
    assert signing.verify(old, rotated.jwk_set()) == RECEIPT
    assert json.loads(document(rotated))["key_id"] == "2026"
    assert signing.verify(document(rotated), rotated.jwk_set()) == RECEIPT
    with pytest.raises(NotValid, match="'2025' is not one of the known keys: 2026"):
        signing.verify(old, ReceiptKeys([NEW]).jwk_set())


def test_compact_form_verifies_with_a_jose_library_and_the_published_keys() -> None:
    signed = msgspec.json.decode(document(ReceiptKeys([OLD])), type=SignedReceipt)
    rotated = ReceiptKeys([NEW, OLD])
    compact = rotated.compact(signed)
    assert compact is not None
    assert compact == ReceiptKeys([OLD]).compact(signed)
    published = jwt.PyJWKSet.from_dict(msgspec.to_builtins(rotated.jwk_set()))
    key = published[jwt.get_unverified_header(compact)["kid"]]
    assert jwt.decode(compact, key, algorithms=["EdDSA"]) == msgspec.to_builtins(RECEIPT)
    head, payload, signature = compact.split(".")
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(f"{head}.{payload[:-2]}AA.{signature}", key, algorithms=["EdDSA"])
    assert ReceiptKeys([NEW]).compact(signed) is None  # the key that signed it is gone


def test_receipt_of_another_service_with_the_same_key_id_is_not_valid() -> None:
    with pytest.raises(NotValid, match="signature does not fit"):
        signing.verify(document(ReceiptKeys([("2025", b"x" * 32)])), ReceiptKeys([OLD]).jwk_set())


def test_key_set_of_other_algorithms_or_broken_keys_verifies_nothing() -> None:
    made, (jwk,) = document(ReceiptKeys([OLD])), ReceiptKeys([OLD]).jwk_set().keys
    for crv, x, why in (("X25519", jwk.x, "known keys: none"), ("Ed25519", "AAAA", "not an Ed25519 key")):
        with pytest.raises(NotValid, match=why):
            signing.verify(made, JwkSet(keys=[signing.Jwk(kid="2025", crv=crv, x=x)]))


@given(st.data())
def test_any_changed_value_is_noticed(data: st.DataObject) -> None:
    keys = ReceiptKeys([OLD])
    made = json.loads(document(keys))
    name = data.draw(st.sampled_from(sorted(made["receipt"])))
    before = made["receipt"][name]
    values = st.integers(0, 10_000) | st.text(max_size=40) | st.none() | st.floats(allow_nan=False) | st.booleans()
    made["receipt"][name] = data.draw(values.filter(lambda value: value != before))
    with pytest.raises(NotValid):
        signing.verify(json.dumps(made).encode(), keys.jwk_set())


@given(st.binary(max_size=60) | st.text().map(str.encode) | st.sampled_from([b"[]", b"1", b"{}", b'{"receipt": 1}']))
def test_any_other_file_is_no_receipt(content: bytes) -> None:
    with pytest.raises(NotValid, match="this is no receipt"):
        signing.verify(content, ReceiptKeys([OLD]).jwk_set())


def test_added_and_missing_fields_and_signatures_in_another_form_are_refused() -> None:
    keys = ReceiptKeys([OLD])
    made = json.loads(document(keys))
    changed = [
        {**made, "note": "paid"},
        {**made, "receipt": {**made["receipt"], "seconds_free": 60}},
        {**made, "signature": made["signature"] + "=="},
        {**made, "signature": made["signature"][:-1]},
        {name: value for name, value in made.items() if name != "key_id"},
    ]
    for one in changed:
        with pytest.raises(NotValid, match="this is no receipt"):
            signing.verify(json.dumps(one).encode(), keys.jwk_set())
    assert signing.verify(json.dumps(made, indent=4).encode(), keys.jwk_set()) == RECEIPT


def at(seconds: float) -> dt.datetime:
    return AT + seconds * SECOND


def could_talk(minutes: int, prolonged: list[Prolonged], until: float, outages: list[tuple[float, float]]) -> int:
    times = rules.talking_times(paired_at=AT, minutes=minutes, prolonged=prolonged, until=at(until))
    return rules.seconds_without(times, merged((at(since), at(to)) for since, to in outages))


def extension(seconds: float, minutes: int) -> Prolonged:
    return Prolonged(at=at(seconds), by=minutes * MINUTE, is_extension=True)


def credit(seconds: float, milliseconds: int) -> Prolonged:
    return Prolonged(at=at(seconds), by=dt.timedelta(milliseconds=milliseconds), is_extension=False)


def test_time_without_outages_is_the_paid_time_up_to_an_early_end() -> None:
    assert could_talk(12, [], 720, []) == 720
    assert could_talk(12, [], 100.9, []) == 100
    assert could_talk(12, [], 0, []) == 0


def test_time_that_was_lost_before_an_extension_moves_the_end_that_the_extension_meets() -> None:
    # Lost from 50 to 80 s, so 10 s of the minute are left when it is extended after 85 s.
    assert could_talk(1, [extension(85, 2), credit(50, 30_000)], 210, [(50, 80)]) == 180
    # Lost from the extension on.
    assert could_talk(1, [credit(90, 30_000), extension(90, 2)], 240, [(90, 120)]) == 180


def test_time_between_the_end_and_an_extension_does_not_count() -> None:
    assert could_talk(1, [extension(90, 2)], 210, []) == 180
    assert could_talk(1, [extension(30, 2)], 180, []) == 180
    # An outage of that time takes nothing away; one around it takes what it covers of the paid time.
    assert could_talk(1, [extension(90, 2)], 210, [(61, 89)]) == 180
    assert could_talk(1, [extension(90, 2)], 210, [(50, 100)]) == 160


def test_overlapping_outages_are_subtracted_once_and_in_their_paid_part() -> None:
    assert could_talk(12, [], 720, [(10, 20), (15, 30), (710, 900), (-50, 5)]) == 720 - 20 - 10 - 5


def test_credit_of_an_outage_gives_its_time_back_also_if_it_comes_after_the_end() -> None:
    assert could_talk(1, [credit(45, 15_000)], 75, [(30, 45)]) == 60
    assert could_talk(1, [credit(70, 15_000)], 75, [(55, 70)]) == 60


events = st.lists(
    st.tuples(st.floats(0, 3_000), st.integers(1, 30), st.booleans()), max_size=5, unique_by=lambda one: one[0]
)
spans = st.lists(st.tuples(st.floats(-100, 4_000), st.floats(0, 500)), max_size=6)


@given(st.integers(1, 60), events, st.floats(0, 6_000), spans)
def test_talking_time_equals_a_count_of_seconds(
    minutes: int, changes: list[tuple[float, int, bool]], until: float, outages: list[tuple[float, float]]
) -> None:
    """By whole seconds, second by second, with whole numbers instead of fractions."""
    prolonged = [
        Prolonged(at=at(int(when)), by=by * MINUTE, is_extension=is_extension) for when, by, is_extension in changes
    ]
    lost = [(float(int(since)), float(int(since) + int(length))) for since, length in outages]
    end, paid = minutes * 60, set[int]()
    begin = 0
    for when, by, is_extension in sorted(changes, key=lambda one: (int(one[0]), not one[2])):
        if is_extension and int(when) > end:
            paid |= set(range(begin, end))
            begin = end = int(when)
        end += by * 60
    paid |= set(range(begin, int(until)))
    counted = {second for second in paid if second < int(until) and not any(a <= second < b for a, b in lost)}
    assert could_talk(minutes, prolonged, int(until), lost) == len(counted)
