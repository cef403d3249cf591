"""The next deadline of each kind, in one query that uses indexes only (docs/invariants.md#i7)."""

import datetime as dt

from core.config import store as config_store
from core.pairing import check_presence
from core.providers.refunds import gateway_of
from core.runtime.container import Runtime
from core.storage import sql_files

# The kinds that wait while the clock of sessions stands (docs/fairness.md#fair-clock). Their flows check that again.
OF_SESSIONS = frozenset({"warning", "expiry", "grace", "round", "wave", "extension"})
SQL = sql_files.load(__file__)
NEXT = f"""{SQL["next"]},
  {config_store.VERSION} AS config_version"""


async def upcoming(runtime: Runtime) -> dict[str, dt.datetime]:
    """Return kind of work -> when it is due next, in service time. Kinds with nothing due are left out.

    Also reloads changed configuration, so that an idle jobs process needs one query for everything.
    """
    scale = runtime.clock.scale if runtime.config.flag("fair_clock") else None
    row = await runtime.db.fetchrow(NEXT, runtime.now(), scale)
    await runtime.changes.follow_config(row["config_version"])
    found = {
        kind: row[kind]
        for kind in ("credit", "warning", "expiry", "grace", "round", "wave", "repeat", "extension")
        if row[kind] is not None
    }
    if row["stands_since"] is not None:
        found = {kind: at for kind, at in found.items() if kind not in OF_SESSIONS}
    if row["poll"] is not None and runtime.gateway is not None:
        found["invoice_poll"] = row["poll"]
    if row["refund"] is not None and gateway_of(runtime.settings, runtime.gateway) is not None:
        found["refund"] = row["refund"]
    if row["silence"] is not None and runtime.config.flag("require_mitra_ping"):
        found["stale"] = row["silence"] + runtime.config.seconds("mitra_stale_after_seconds")
    if row["silence"] is not None and runtime.config.flag("reachability_probe"):
        policy = check_presence.check_policy(runtime.config, cadence_s=runtime.settings.mitra_heartbeat_cadence_seconds)
        # A mitra whose check is unanswered may have the longest silence, so this is another statement.
        if (due := await check_presence.next_due(runtime.db, policy, now=runtime.now())) is not None:
            found["presence_check"] = due
    return found
