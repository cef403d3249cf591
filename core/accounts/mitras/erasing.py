"""Replace the personal fields of mitras that are never null (docs/privacy.md#erasure)."""

from core.accounts.mitras.tables import Mitra as Mitras
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

NAME = "–"  # noqa: RUF001 - customers see it where the name was
IS_ERASED = statement(Mitras.select(Mitras.id).where(Mitras.id == p.id, Mitras.erased_at.is_not_null()))
PHONE_DIGITS = 19
BLANK = statement(Mitras.update(phone=p.phone, display_name=NAME, erased_at=p.now).where(Mitras.id == p.id))


async def is_erased(reader: Reader, mitra_id: str) -> bool:
    """Return whether a mitra's personal data was erased."""
    return await IS_ERASED.value(reader, id=mitra_id) is not None


async def blank(tx: Tx, mitra_id: str) -> None:
    """Replace the phone and the name of a mitra. A part of the id replaces the phone, which must be unique."""
    phone = "#" + mitra_id.replace("-", "")[-PHONE_DIGITS:]
    await BLANK.execute(tx, id=mitra_id, phone=phone, now=tx.now)
