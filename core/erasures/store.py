"""Read and write erasures and the hashes of erased identities."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base import ids
from core.erasures.rules import RequestedBy
from core.erasures.tables import ErasedIdentity as Identities
from core.erasures.tables import Erasure as Erasures
from core.storage import sql_files
from core.storage.records import many, one
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class Erasure:
    """A row of erasures."""

    id: str
    user_type: str
    user_id: str
    requested_by: str
    began_at: dt.datetime
    completed_at: dt.datetime | None


SQL = sql_files.load(__file__)
COLUMNS = columns_of(Erasures, Erasure)
OF_USER = statement(Erasures.select(*COLUMNS).where(Erasures.user_id == p.user_id), Erasure)
COMPLETE = statement(Erasures.update(completed_at=p.now).where(Erasures.id == p.id))
KEEP_HASH = statement(insert(Identities, "hash erased_at").on_conflict(Identities.hash, "DO NOTHING"))


async def begin(tx: Tx, *, user_type: str, user_id: str, requested_by: RequestedBy) -> Erasure:
    """Store that a user's data is being erased. An erasure that is repeated keeps its id and begins again."""
    row = await tx.fetchrow(SQL["begin"], ids.new_id(), user_type, user_id, requested_by, tx.now)
    found = one(Erasure, row)
    assert found is not None
    return found


async def of_user(reader: Reader, user_id: str) -> Erasure | None:
    """Return a user's erasure."""
    return await OF_USER.first(reader, user_id=user_id)


async def pending(reader: Reader, *, after: Erasure | None, limit: int) -> list[Erasure]:
    """Return erasures that are not complete, the oldest first; with `after`, those that follow it."""
    rows = await reader.fetch(SQL["pending"], after and after.began_at, after and after.id, limit)
    return many(Erasure, rows)


async def listed(reader: Reader, *, after: Erasure | None, limit: int) -> list[Erasure]:
    """Return erasures, the oldest first; with `after`, those that follow it."""
    return many(Erasure, await reader.fetch(SQL["listed"], after and after.began_at, after and after.id, limit))


async def claim(tx: Tx, erasure_id: str) -> bool:
    """Lock an erasure that is not complete. Return False while another process has it."""
    return await tx.fetchval(SQL["claim"], erasure_id) is not None


async def complete(tx: Tx, erasure_id: str) -> None:
    """Store that nothing of the user's data is left."""
    await COMPLETE.execute(tx, id=erasure_id, now=tx.now)


async def newest(reader: Reader) -> dt.datetime | None:
    """Return when the last erasure began; None without any."""
    return await reader.fetchval(SQL["newest"])


async def of_lines(reader: Reader, *, request_ids: Sequence[str], invoice_ids: Sequence[str]) -> dict[str, str]:
    """Return those of these payment requests and invoices whose customer is erased, each with the customer."""
    rows = await reader.fetch(SQL["of_lines"], request_ids, invoice_ids)
    return {row["id"]: row["customer_id"] for row in rows}


async def reopen(tx: Tx, customer_ids: Sequence[str]) -> None:
    """Begin the complete erasures of customers again, because there is more of their data than the sweep has seen."""
    await tx.execute(SQL["reopen"], customer_ids, tx.now)


async def keep_hash(tx: Tx, digest: str) -> None:
    """Store that the customer of an identity had used up the first-session discount."""
    await KEEP_HASH.execute(tx, hash=digest, erased_at=tx.now)


async def knows(reader: Reader, digests: Sequence[str]) -> bool:
    """Return whether one of these hashes is of an erased customer who had used up the first-session discount."""
    return await reader.fetchval(SQL["knows"], digests)
