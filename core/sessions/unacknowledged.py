"""Find and claim the parties who have not acknowledged a message in time, for the push that replaces it."""

import datetime as dt

import attrs

from core.storage import locks
from core.storage.locks import AdvisoryLock
from core.storage.records import many
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class UnacknowledgedChat:
    """A party who has not acknowledged a message of the other party in time.

    `unshown_on`: the devices (auth session ids) that have all messages and have not shown them.
    """

    session_id: str
    user_id: str
    unshown_on: list[str]


# Sessions in which a side has not acknowledged a message sent before $1, and has had no push for it.
#
# The oldest unacknowledged message decides. It is read by its place in the index of the session, in a subquery that the
# planner can't turn into a join: a join read all messages of the service when the statistics of the tables were old.
WAITING = """FROM chat_sessions AS s
  WHERE
    {which}
    AND s.{other}_sent_seq > s.{side}_delivered_seq
    AND s.{side}_pushed_seq <= s.{side}_delivered_seq
    AND (
      SELECT m.created_at
      FROM chat_messages AS m
      WHERE
        m.session_id = s.id
        AND m.seq > s.{side}_delivered_seq
        AND m.sender_type = '{other}'
      ORDER BY m.seq
      LIMIT 1
    ) < $1"""
# They are searched without locks, because chats wait for a locked session, and then locked if nothing has changed.
CLAIM = f"""WITH waiting AS MATERIALIZED (
  SELECT
    s.id,
    s.{{side}}_delivered_seq AS delivered_seq
  {WAITING}
  LIMIT $2
)
UPDATE chat_sessions
SET {{side}}_pushed_seq = {{side}}_delivered_seq + 1
WHERE id = ANY(ARRAY(
  SELECT s.id
  FROM waiting
  JOIN chat_sessions AS s ON waiting.id = s.id
  WHERE
    {{which}}
    AND s.{{side}}_delivered_seq = waiting.delivered_seq
    AND s.{{side}}_pushed_seq <= waiting.delivered_seq
  FOR NO KEY UPDATE OF s SKIP LOCKED
))
RETURNING
  id AS session_id,
  {{side}}_id AS user_id,
  ARRAY(
    SELECT u.key FROM jsonb_each({{side}}_unshown) AS u WHERE u.value::int >= {{other}}_sent_seq
  ) AS unshown_on"""
# A due push is sent even if the session has ended, so sessions completed in the last hour count too.
WHICH = (
    "is_open(s.status)",
    "s.status = 'completed' AND s.ended_at > $1::timestamptz - interval '1 hour'",
)
KINDS = [
    {"side": side, "other": other, "which": which}
    for side, other in (("customer", "mitra"), ("mitra", "customer"))
    for which in WHICH
]
CLAIMS = [CLAIM.format(**kind) for kind in KINDS]
# Whether a claim would find a party. The lock $2 is held as long as the statement runs.
ANY = f"""SELECT CASE
  WHEN pg_try_advisory_xact_lock($2, 0) THEN
  {" OR ".join(f"EXISTS (SELECT 1 {WAITING.format(**kind)})" for kind in KINDS)}
  ELSE false
END"""


def _before(now: dt.datetime, real_seconds: float, scale: float) -> dt.datetime:
    """Return since when a message that is `real_seconds` old at `now` has existed, in service time."""
    return now - dt.timedelta(seconds=real_seconds * scale)


async def is_any(reader: Reader, *, now: dt.datetime, real_seconds: float, scale: float) -> bool:
    """Return whether there is a party to claim, in one statement without a transaction.

    Only one process looks at a time; another one gets False.
    """
    return await reader.fetchval(ANY, _before(now, real_seconds, scale), AdvisoryLock.CHAT_PUSHES)


async def claim(tx: Tx, *, real_seconds: float, scale: float, limit: int) -> list[UnacknowledgedChat]:
    """Claim the parties who have not acknowledged a message for `real_seconds`, each once until their delivered marker
    moves.

    Only one process looks at a time; another one would find the same rows at the same cost. It gets an empty list.
    """
    found: list[UnacknowledgedChat] = []
    if not await locks.try_hold(tx, AdvisoryLock.CHAT_PUSHES):
        return found
    before = _before(tx.now, real_seconds, scale)
    for sql in CLAIMS:
        found += many(UnacknowledgedChat, await tx.fetch(sql, before, limit))
    return found
