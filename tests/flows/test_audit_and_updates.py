"""An audit, however long it takes, lets VACUUM remove old row versions of chats that are updated at the same time."""

import asyncio

import attrs

from core.app.reactions import open_runtime
from core.desk.ledger.audit import audit
from tests.faults.proxy import Proxy, When
from tests.flows.chats import a_chat
from tests.flows.conftest import Harness
from tests.verdicts import check_books

RULES, UPDATES = 12, 300  # rules of the audit, and updates during each of them
UPDATE = f"""DO $$ BEGIN FOR n IN 1..{UPDATES} LOOP
    UPDATE chat_sessions SET last_seq = last_seq;
    COMMIT;
  END LOOP; END $$"""
SIZE = "SELECT pg_relation_size('chat_sessions')"
ROOM = 300_000  # bytes; the row versions of all updates take 850,000, those of two rules 150,000


def test_vacuum_during_an_audit_frees_space_for_updates(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        await a_chat(clean_harness)
        proxy = Proxy(runtime.settings.database_url, knows_statements=True)
        auditor = await open_runtime(attrs.evolve(runtime.settings, database_url=proxy.url), pool_size=2)
        try:
            before = await runtime.db.fetchval(SIZE)
            held = proxy.park("FROM payment_requests", when=When.AFTER)
            audited = asyncio.create_task(audit(auditor))
            for _ in range(RULES):  # the server has answered a rule, but the audit has not read the result yet
                await held.reached()
                async with runtime.db.pool.acquire() as connection:
                    await connection.execute(UPDATE)
                    await connection.execute("VACUUM (TRUNCATE false) chat_sessions")  # as autovacuum does
                following = proxy.park("^", when=When.AFTER)
                held.release()
                held = following
            proxy.remove_parks()
            held.release()
            check_books(await audited)
            assert await runtime.db.fetchval(SIZE) - before < ROOM
        finally:
            await auditor.close()
            proxy.close()

    clean_harness.run(play())
