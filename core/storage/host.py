"""A host of the database: what its server reports about itself."""

import hashlib
import urllib.parse
from typing import Any

import attrs

ANSWER_S = 1.0  # to connect and get an answer; a host that takes longer counts as failed
# During recovery the timeline is that of the last checkpoint. Only the epoch of a standby depends on it.
SERVER = """SELECT NOT pg_is_in_recovery() AS primary, current_setting('transaction_read_only') = 'off' AS writable,
  (SELECT system_identifier FROM pg_control_system())::text AS system,
  CASE WHEN pg_is_in_recovery() THEN lpad(upper(to_hex((SELECT timeline_id FROM pg_control_checkpoint()))), 8, '0')
       ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline"""


@attrs.frozen(kw_only=True)
class Server:
    """What a server reports about itself. `timeline` has 8 hexadecimal digits, so the texts compare like numbers."""

    primary: bool
    writable: bool
    system: str
    timeline: str

    @property
    def epoch(self) -> str:
        """An opaque mark of the database's history, which changes after a failover or a restore."""
        return hashlib.sha256(f"{self.system}/{self.timeline}".encode()).hexdigest()[:16]


async def ask(connection: Any) -> Server:
    """Ask a server for its role, system and timeline."""
    return Server(**dict(await connection.fetchrow(SERVER, timeout=ANSWER_S)))


def host_of(url: str) -> str:
    """Return the host of a URL, with its port if there is one, and without the user and password."""
    parts = urllib.parse.urlsplit(url)
    return parts.netloc.rpartition("@")[2] or dict(urllib.parse.parse_qsl(parts.query)).get("host", "")
