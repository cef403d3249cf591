"""Which language a client asks for; pure functions."""

from hypothesis import given
from hypothesis import strategies as st

from core.base.languages import MAX_HEADER, Language, Text, parse_locale, preferred
from tests.each import for_each

ID, EN = Language.INDONESIAN, Language.ENGLISH


@for_each(
    ("header", "language"),
    [
        (None, None), ("", None), ("id", ID), ("en", EN), ("id-ID,id;q=0.9,en-US;q=0.8,en;q=0.7", ID),
        ("en-GB,en;q=0.9,id;q=0.8", EN), ("en;q=0.5, id;q=0.6", ID), ("en;q=0.6,id;q=0.6", EN), ("id;q=0.6,en;q=0.6", ID),
        ("fr, id;q=0.1", ID), ("fr", None), ("fr, *;q=0.5", EN), ("*", EN), ("id;q=0.5, *", EN), ("en;q=0, *", ID),
        ("id;q=0", None), ("id;q=0, en;q=0, *", None), ("in-ID", ID), ("ID_id", ID), ("id_ID,en_US;q=0.5", ID), ("in_ID", ID), ("Id-Latn-ID", ID), ("idx", None),
        ("id;q=2", ID), ("id;q=-1", None), ("id;q=abc, en;q=0.1", EN), ("id;level=1", None), (" id ; q = 0.9 ", ID),
        (",,;;,=,id", ID), ("id;q=٣", None), ("id;q=.5", ID), ("id;q=nan,en;q=0.1", EN),
    ],
)  # fmt: skip
def test_accept_language_returns_the_language_with_the_greatest_weight(header: str | None, language: Language | None):
    assert preferred(header) is language


@given(st.text(alphabet=st.sampled_from("iden-*;q=0.19, "), max_size=60) | st.text(max_size=300))
def test_any_accept_language_is_parsed_without_an_error(header: str):
    assert preferred(header) in (ID, EN, None)


TAGS = {"id": ID, "in": ID, "en": EN, "fr": None, "ide": None}


@given(
    tag=st.sampled_from(sorted(TAGS)),
    region=st.sampled_from(["", "ID", "us", "Latn-ID", "Latn_ID", "001"]),
    joint=st.sampled_from("-_"),
    ending=st.sampled_from(["", ".UTF-8", ".utf8", ".ISO8859-1"]),
    upper=st.booleans(),
)
def test_every_notation_of_a_locale_is_read_in_both_headers(
    tag: str, region: str, joint: str, ending: str, upper: bool
):
    written = (tag.upper() if upper else tag) + (joint + region if region else "") + ending
    assert parse_locale(written) is preferred(written) is TAGS[tag]


def test_accept_language_beyond_its_maximum_length_is_ignored():
    assert preferred("fr," * (MAX_HEADER // 3) + "xx,id") is None


@for_each(
    ("header", "language"),
    [(None, None), ("id", ID), ("en", EN), ("EN", EN), ("id-ID", ID), (" en ", EN), ("fr", None), ("", None), ("id,en", None),
     ("en_US", EN), ("en_ID", EN), ("EN_us", EN), ("en_US.UTF-8", EN), ("en.UTF-8", EN), ("id_ID", ID), ("in_ID", ID), ("IN", ID),
     ("in-ID", ID), ("in_ID_#Latn", ID), ("_en", None), (".en", None), ("english", None)],
)  # fmt: skip
def test_unsupported_locale_is_none(header: str | None, language: Language | None):
    assert parse_locale(header) is language


def test_text_has_both_languages_and_is_logged_in_english():
    text = Text(en="Wait.", id="Tunggu.")
    assert (text.said_in(EN), text.said_in(ID), str(text)) == ("Wait.", "Tunggu.", "Wait.")
