"""Processes of this version and of 0.2 exclude each other by the same locks during a rolling restart."""

import pytest

from core.storage import locks
from core.storage.locks import AdvisoryLock
from tests.flows.conftest import Harness


@pytest.mark.parametrize(("lock", "number_in_0_2"), [(AdvisoryLock.MITRA_PHONE, 3), (AdvisoryLock.MITRA_LOGINS, 6)])
def test_lock_with_a_new_number_excludes_a_process_of_version_0_2(
    harness: Harness, lock: AdvisoryLock, number_in_0_2: int
) -> None:
    async def play() -> None:
        db = harness.runtime.db
        for number in (number_in_0_2, lock):
            async with harness.runtime.transaction() as tx:
                await locks.hold(tx, lock, "key")
                assert not await db.fetchval("SELECT pg_try_advisory_xact_lock($1, hashtext($2))", number, "key")
            assert await db.fetchval("SELECT pg_try_advisory_xact_lock($1, hashtext($2))", number, "key")

    harness.run(play())
