"""Cause tags: why a paid request led to no chat (docs/product.md#cause-tags).

Each tag is declared here once, with its texts. `make pages` writes them into docs/product.md and into the labels of the
control center.
"""

import enum
from typing import Self

import attrs

from core.base.languages import Text


@attrs.frozen(kw_only=True)
class CauseTexts:
    """What a cause tag means.

    `when` is its row in docs/product.md, `label` has two to four words for a list, and `explanation` is a sentence for
    an operator. `may_fall_back` says whether the customer may ask all mitras instead
    (docs/product.md#fallback-to-a-blast). Apps expect that of exactly the tags that begin with `targeted_`
    (docs/protocol.md#pairing).
    """

    when: str
    label: Text
    explanation: Text
    may_fall_back: bool = False


class CauseTag(enum.StrEnum):
    """Why a paid request led to no chat (docs/product.md#cause-tags)."""

    cause: CauseTexts

    def __new__(cls, value: str, cause: CauseTexts) -> Self:
        """Return a tag with its meaning."""
        tag = str.__new__(cls, value)
        tag._value_ = value
        tag.cause = cause
        return tag

    NO_MITRA_AVAILABLE = (
        "no_mitra_available",
        CauseTexts(
            when="the search's time is over",
            label=Text(en="no mitra available", id="tidak ada mitra tersedia"),
            explanation=Text(
                en="The customer paid, but no mitra accepted before the search ended.",
                id="Pelanggan membayar, tetapi tidak ada mitra yang menerima sebelum pencarian berakhir.",
            ),
        ),
    )
    ALL_MITRAS_REJECTED = (
        "all_mitras_rejected",
        CauseTexts(
            when="every mitra who was asked has rejected, and no other is eligible",
            label=Text(en="all mitras rejected", id="semua mitra menolak"),
            explanation=Text(
                en="The customer paid, but every invited mitra rejected the request.",
                id="Pelanggan membayar, dan setiap mitra yang diminta menolak.",
            ),
        ),
    )
    TARGETED_MITRA_OFFLINE = (
        "targeted_mitra_offline",
        CauseTexts(
            when="the targeted mitra was offline, full or deactivated when asked, or went offline",
            label=Text(en="chosen mitra offline", id="mitra pilihan luring"),
            explanation=Text(
                en="The customer paid for a chosen mitra who was by then offline, at capacity or inactive.",
                id="Pelanggan membayar untuk kembali ke mitra yang saat itu luring, penuh atau nonaktif.",
            ),
            may_fall_back=True,
        ),
    )
    TARGETED_MITRA_REJECTED = (
        "targeted_mitra_rejected",
        CauseTexts(
            when="the targeted mitra has rejected",
            label=Text(en="chosen mitra rejected", id="mitra pilihan menolak"),
            explanation=Text(
                en="The customer paid for a chosen mitra who rejected the request.",
                id="Pelanggan membayar untuk kembali ke mitra yang menolak.",
            ),
            may_fall_back=True,
        ),
    )
    TARGETED_MITRA_TIMEOUT = (
        "targeted_mitra_timeout",
        CauseTexts(
            when="the targeted mitra did not answer in time",
            label=Text(en="chosen mitra did not answer", id="mitra pilihan tidak menjawab"),
            explanation=Text(
                en="The customer paid for a chosen mitra who did not answer in time.",
                id="Pelanggan membayar untuk kembali ke mitra yang tidak menjawab tepat waktu.",
            ),
            may_fall_back=True,
        ),
    )
    PAYMENT_SESSION_EXPIRED = (
        "payment_session_expired",
        CauseTexts(
            when="the money came too late, or when no session could start",
            label=Text(en="payment came too late", id="uang datang terlambat"),
            explanation=Text(
                en="The payment arrived when the request could no longer become a chat: it came too late, another "
                "session or payment was in progress, or its discount had been used elsewhere.",
                id="Uang datang ketika permintaan ini tidak bisa lagi menjadi obrolan: terlambat, bersamaan dengan "
                "sesi atau pembayaran lain, atau diskonnya sudah terpakai.",
            ),
        ),
    )
    PAYMENT_SHORT = (
        "payment_short",
        CauseTexts(
            when="less was paid than the invoice asked for",
            label=Text(en="paid too little", id="bayar kurang"),
            explanation=Text(
                en="The customer paid less than the invoice asked for. Refund the money, or accept it for what it is.",
                id="Pelanggan membayar kurang dari tagihan. Kembalikan uangnya, atau terima sebesar yang dibayar.",
            ),
        ),
    )
    CUSTOMER_CANCELLED = (
        "customer_cancelled",
        CauseTexts(
            when="the customer cancelled, or an operator ended the search",
            label=Text(en="customer cancelled", id="pelanggan pergi"),
            explanation=Text(
                en="The customer paid and cancelled before a mitra accepted.",
                id="Pelanggan membayar lalu pergi sebelum mitra datang.",
            ),
        ),
    )
    EXTENSION_REJECTED = (
        "extension_rejected",
        CauseTexts(
            when="the mitra has rejected the extension, or silence did",
            label=Text(en="extension rejected", id="perpanjangan ditolak"),
            explanation=Text(
                en="The customer paid for an extension, and the mitra rejected it or did not answer in time.",
                id="Pelanggan membayar tambahan menit, dan mitra menolak, atau diamnya dianggap menolak.",
            ),
        ),
    )
    EXTENSION_SAFEGUARD_TRIPPED = (
        "extension_safeguard_tripped",
        CauseTexts(
            when="the session could not be extended any longer when the money was there",
            label=Text(en="extension too late", id="perpanjangan terlambat"),
            explanation=Text(
                en="The customer paid for an extension, but the session had ended, the payment came too late, or "
                "another extension was in progress.",
                id="Pelanggan membayar tambahan menit untuk sesi yang sudah berakhir atau diakhiri sebelum sempat "
                "dimulai; atau uangnya terlambat, atau bersamaan dengan perpanjangan lain.",
            ),
        ),
    )


@attrs.frozen(kw_only=True)
class SubCauseTexts:
    """What a sub-cause means: its row in docs/product.md, and a label and a sentence for an operator."""

    when: str
    label: Text
    explanation: Text


class SubCause(enum.StrEnum):
    """What exactly happened, for cause tags that have several ways. The transaction that decides stores it."""

    texts: SubCauseTexts

    def __new__(cls, value: str, texts: SubCauseTexts) -> Self:
        """Return a sub-cause with its texts."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.texts = texts
        return made

    LATE = (
        "late",
        SubCauseTexts(
            when="the money came after the time to pay",
            label=Text(en="payment came too late", id="uang datang terlambat"),
            explanation=Text(
                en="The payment arrived after the time to pay had ended.",
                id="Uang datang setelah batas waktu pembayaran.",
            ),
        ),
    )
    GIVEN_UP = (
        "given_up",
        SubCauseTexts(
            when="the money came after the request was abandoned",
            label=Text(en="paid after giving up", id="bayar setelah ditinggalkan"),
            explanation=Text(
                en="The payment arrived after the request had been abandoned.",
                id="Uang datang setelah permintaan ditinggalkan.",
            ),
        ),
    )
    DOUBLE = (
        "double",
        SubCauseTexts(
            when="the customer had paid another request for the same",
            label=Text(en="paid twice", id="bayar dua kali"),
            explanation=Text(
                en="The customer paid twice: another request was paid too.",
                id="Pelanggan membayar dua kali: permintaan lain juga dibayar.",
            ),
        ),
    )
    LIVE_SESSION = (
        "live_session",
        SubCauseTexts(
            when="the customer had another live session",
            label=Text(en="paid during another session", id="bayar saat ada sesi lain"),
            explanation=Text(
                en="The payment arrived while the customer had another session.",
                id="Uang datang ketika pelanggan memiliki sesi lain.",
            ),
        ),
    )
    DISCOUNT_USED = (
        "discount_used",
        SubCauseTexts(
            when="the first-session discount had been used up",
            label=Text(en="discount already used", id="diskon sudah terpakai"),
            explanation=Text(
                en="The payment arrived when the first-session discount had already been used.",
                id="Uang datang ketika diskon sesi pertama sudah terpakai.",
            ),
        ),
    )
    ERASED = (
        "erased",
        SubCauseTexts(
            when="the customer was erased",
            label=Text(en="customer erased", id="data pelanggan dihapus"),
            explanation=Text(
                en="The payment arrived after the customer had been erased.",
                id="Uang datang setelah data pelanggan dihapus.",
            ),
        ),
    )
    BY_OPERATOR = (
        "by_operator",
        SubCauseTexts(
            when="an operator ended the search",
            label=Text(en="ended by an operator", id="diakhiri operator"),
            explanation=Text(
                en="The customer paid, and an operator ended the search before a mitra accepted.",
                id="Pelanggan membayar, lalu operator mengakhiri pencarian sebelum ada mitra yang menerima.",
            ),
        ),
    )
    REJECTED = (
        "rejected",
        SubCauseTexts(
            when="the mitra rejected the extension",
            label=Text(en="extension rejected", id="perpanjangan ditolak"),
            explanation=Text(
                en="The customer paid for an extension, and the mitra rejected it.",
                id="Pelanggan membayar tambahan menit, dan mitra menolak.",
            ),
        ),
    )
    NOT_ANSWERED = (
        "not_answered",
        SubCauseTexts(
            when="the mitra did not answer, which counted as a rejection",
            label=Text(en="extension not answered", id="perpanjangan tidak dijawab"),
            explanation=Text(
                en="The customer paid for an extension, and the mitra did not answer in time.",
                id="Pelanggan membayar tambahan menit, dan mitra tidak menjawab tepat waktu.",
            ),
        ),
    )
    SESSION_ENDED = (
        "session_ended",
        SubCauseTexts(
            when="the session to extend had ended, or was ended before an answer",
            label=Text(en="session ended first", id="sesi lebih dulu berakhir"),
            explanation=Text(
                en="The customer paid for an extension, but the session ended before it could begin.",
                id="Pelanggan membayar tambahan menit, tetapi sesi berakhir sebelum tambahan itu dimulai.",
            ),
        ),
    )
    MITRA_INACTIVE = (
        "mitra_inactive",
        SubCauseTexts(
            when="the mitra of the session was deactivated",
            label=Text(en="mitra deactivated", id="mitra dinonaktifkan"),
            explanation=Text(
                en="The customer paid for an extension, but the mitra had been deactivated.",
                id="Pelanggan membayar tambahan menit, tetapi mitra sudah dinonaktifkan.",
            ),
        ),
    )


@attrs.frozen
class Why:
    """Why a paid request led to no chat. `twin_id` is the other payment request of a customer who paid twice."""

    cause: CauseTag
    sub_cause: SubCause | None = None
    twin_id: str | None = None


def label(cause: CauseTag, sub_cause: str | None) -> Text:
    """Return what happened in a few words, for an operator; see `explanation`."""
    if sub_cause is None or cause is CauseTag.PAYMENT_SHORT:
        return cause.cause.label
    return SubCause(sub_cause).texts.label


def explanation(cause: CauseTag, sub_cause: str | None) -> Text:
    """Return the sentence for an operator: what exactly happened if that is known, else what the cause says."""
    if sub_cause is None or cause is CauseTag.PAYMENT_SHORT:
        return cause.cause.explanation
    return SubCause(sub_cause).texts.explanation
