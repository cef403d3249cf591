"""A renamed column is copied, then the old column is dropped (CONTRIBUTING.md#rename-a-column)."""

import pytest

from core.storage.migrations import files
from tests.migrations import series
from tests.stack import Stack

pytestmark = pytest.mark.anyio
COPY, DROP = series.RENAMED_COLUMN
INSERT = "INSERT INTO mitras (id, phone, {}) VALUES (gen_random_uuid(), $1, $2)"
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 'mitras'::regclass AND attname LIKE '%name' ORDER BY 1"
NAMES = "SELECT array_agg(name ORDER BY phone) FROM mitras"


async def test_values_of_processes_of_both_versions_reach_the_new_column(servers: Stack) -> None:
    async with series.migrated(servers, "renamed", list(files())[-1]) as url, series.connected(url) as connection:
        await series.run(url, [COPY])
        assert await connection.fetchval(NAMES) == ["Ayu"]
        await connection.execute(INSERT.format("display_name"), "+6281200000003", "Bima")  # by an old process
        await connection.execute(INSERT.format("name"), "+6281200000004", "Citra")  # by a new one
        await connection.execute("UPDATE mitras SET display_name = 'Ayu Dewi' WHERE display_name = 'Ayu'")
        await connection.execute("UPDATE mitras SET name = 'Bima Sena' WHERE name = 'Bima'")
        names = ["Ayu Dewi", "Bima Sena", "Citra"]
        assert await connection.fetchval(NAMES) == names
        assert await connection.fetchval(NAMES.replace("name", "display_name")) == names
        await series.run(url, [DROP])
        assert await connection.fetchval(NAMES) == names
        assert [row["attname"] for row in await connection.fetch(COLUMNS)] == ["name"]
