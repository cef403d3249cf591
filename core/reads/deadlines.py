"""The next deadline of each kind, in one query that uses indexes only (docs/invariants.md#i7)."""

import datetime as dt

from core.config import store as config_store
from core.runtime import Runtime

NEXT = f"""SELECT
    (SELECT min(warn_at) FROM chat_sessions WHERE warn_at IS NOT NULL) AS warning,
    (SELECT min(expires_at) FROM chat_sessions WHERE status = 'active') AS expiry,
    (SELECT min(s.grace_ends_at) FROM chat_sessions s WHERE s.status IN ('expired', 'closing')
      AND NOT (s.status = 'expired' AND EXISTS (SELECT 1 FROM session_extensions e WHERE e.session_id = s.id AND e.status = 'pending')))
      AS grace,
    (SELECT min(round_ends_at) FROM chat_sessions WHERE status = 'searching') AS round,
    (SELECT min(asked_repeat_at) FROM chat_sessions WHERE status = 'searching' AND asked_repeat_at IS NOT NULL) AS repeat,
    (SELECT min(answer_by) FROM session_extensions WHERE status = 'pending') AS extension,
    (SELECT min(poll_at) FROM payment_requests WHERE status = 'pending' AND poll_at IS NOT NULL) AS poll,
    longest_silence_since($1) AS silence,
    {config_store.VERSION} AS config_version"""


async def upcoming(runtime: Runtime) -> dict[str, dt.datetime]:
    """Return kind of work -> when it is due next, in service time. Kinds with nothing due are left out.

    Also reloads changed configuration, so that an idle jobs process needs one query for everything.
    """
    row = await runtime.db.fetchrow(NEXT, runtime.now())
    await runtime.changes.follow_config(row["config_version"])
    found = {
        kind: row[kind]
        for kind in ("warning", "expiry", "grace", "round", "repeat", "extension")
        if row[kind] is not None
    }
    if row["poll"] is not None and runtime.gateway is not None:
        found["invoice_poll"] = row["poll"]
    if row["silence"] is not None and runtime.config.flag("require_mitra_ping"):
        found["stale"] = row["silence"] + runtime.config.seconds("mitra_stale_after_seconds")
    return found
