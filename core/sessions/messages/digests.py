"""The digest of a chat: a hash over all its messages in order (docs/fairness.md#digest).

The database function `chat_digest` computes it. Nothing is computed when a message is stored: a reader continues from
the nearest stored digest, and stores those of multiples of 64 that it passes.
"""

import contextlib

import attrs

from core.base.errors import Unavailable
from core.storage import sql_files
from core.storage.records import as_dict
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
AT_ONCE = 5_000  # messages in a statement: a tenth of what a statement has time for
# Messages that one `sync` may read for its digest. A chat without stored digests reaches its end with the next answers.
SYNC_AT_ONCE = 2_048


@attrs.frozen(kw_only=True)
class ChatDigest:
    """The digest of the messages up to `seq`, in lower-case hex.

    It is null if `seq` is null, and if the texts were removed before it was computed. `seq` is null if the session is
    blanked and the digest is for a reader. `more`: there are further messages, up to the seq that was asked for. The
    digests `unstored` of `unstored_seqs` were computed on the way.
    """

    blanked: bool
    seq: int | None
    digest: str | None
    more: bool
    unstored_seqs: list[int]
    unstored: list[bytes]

    @property
    def goes_on(self) -> bool:
        """Return whether a repeated call leads further."""
        return self.digest is not None and self.more


async def for_reader(reader: Reader, session_id: str, *, up_to: int) -> ChatDigest | None:
    """Return the digest of a session up to a seq, or of less if there are no such messages or too many to read at once.

    Return None if the session does not exist. Stores digests if the database takes them; safe to repeat.
    """
    found = await _compute(reader, session_id, up_to, SYNC_AT_ONCE, False)
    if found is not None:
        with contextlib.suppress(Unavailable):  # such as a full disk or a read-only server
            await _store(reader, session_id, found, False)
    return found


async def advance(reader: Reader, session_id: str, *, up_to: int, at_most: int = AT_ONCE) -> ChatDigest:
    """Return the digest of a session up to a seq, or as far as `at_most` further messages lead, and store it.

    A repeated call goes on from there.
    """
    found = await _compute(reader, session_id, up_to, at_most, True)
    assert found is not None
    await _store(reader, session_id, found, True)
    return found


async def _compute(reader: Reader, *args: object) -> ChatDigest | None:
    row = await reader.fetchrow(SQL["digest"], *args)
    return None if row is None else ChatDigest(**as_dict(row))


async def _store(reader: Reader, session_id: str, found: ChatDigest, of_blanked: bool) -> None:
    if found.unstored_seqs:
        await reader.fetch(SQL["store"], session_id, found.unstored_seqs, found.unstored, of_blanked)


async def forget(tx: Tx, session_id: str, *, before: int) -> None:
    """Delete the stored digests of a session before a seq."""
    await tx.execute(SQL["forget"], session_id, before)
