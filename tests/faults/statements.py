"""Read the statements of a PostgreSQL client from the bytes that it sends.

A client prepares a statement once (Parse), binds it to a portal (Bind) and executes the portal (Execute), or sends
plain text (Query). So the names of statements and portals are kept for each connection. The protocol is described in
PostgreSQL's documentation, "Message Formats".
"""

import re
import struct

import attrs

SSL_REQUEST, CANCEL_REQUEST = 80877103, 80877102
SPACES = re.compile(r"\s+")
EQUALS = re.compile(r"\s*(?<![<>!:])=\s*")
WRITES = re.compile(
    r"^(?:WITH .*?)?(?<!FOR )(INSERT INTO|UPDATE|DELETE FROM) (\w+)|\b(chat_commit\w*)\(", re.IGNORECASE | re.DOTALL
)
ENDS = ("COMMIT", "ROLLBACK", "COMMIT;", "ROLLBACK;")


def plain(sql: str) -> str:
    """Return a statement on one line, in one spelling: Piccolo quotes names and puts no spaces around `=`."""
    return EQUALS.sub(" = ", SPACES.sub(" ", sql).strip().replace('"', ""))


@attrs.define
class Message:
    """One message of the client: its bytes, and the statement that it makes the server execute, if any."""

    raw: bytes
    statement: str | None = None


class Statements:
    """Split the bytes of one connection into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._started = False
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._open = False
        self.transaction: list[str] = []  # the statements since BEGIN, or the single statement outside of a transaction

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete."""
        self._buffer += data
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        head = 5 if self._started else 8
        if len(self._buffer) < head:
            return None
        if not self._started:
            size, code = struct.unpack_from("!ii", self._buffer)
        else:
            code, size = 0, 1 + struct.unpack_from("!i", self._buffer, 1)[0]
        if len(self._buffer) < size:
            return None
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        if not self._started:
            self._started = code not in (SSL_REQUEST, CANCEL_REQUEST)
            return Message(raw)
        return Message(raw, self._statement(raw[:1], raw[5:]))

    def _statement(self, kind: bytes, body: bytes) -> str | None:
        if kind == b"Q":
            return self._ran(body[:-1].decode())
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self._prepared[name] = sql.decode()
        elif kind == b"B":
            portal, name, _ = body.split(b"\0", 2)
            self._portals[portal] = self._prepared.get(name, "")
        elif kind == b"E":
            return self._ran(self._portals.get(body.split(b"\0", 1)[0], ""))
        return None

    def _ran(self, sql: str) -> str:
        sql = plain(sql)
        if sql.startswith("BEGIN") or not self._open:
            self.transaction = []
        self._open = sql.startswith("BEGIN") or (self._open and sql not in ENDS)
        self.transaction.append(sql)
        return sql


def written(transaction: list[str]) -> tuple[str, ...]:
    """Return the tables that a transaction writes, in order, without repeats."""
    found: dict[str, None] = {}
    for sql in transaction:
        for _, table, function in WRITES.findall(sql):
            found[table or function] = None
    return tuple(found)


def has_ready(data: bytes) -> bool:
    """Return whether a server's reply, which begins with these bytes, is complete, that is, contains ReadyForQuery."""
    at = 0
    while at + 5 <= len(data):
        if data[at : at + 1] == b"Z":
            return True
        at += 1 + struct.unpack_from("!i", data, at + 1)[0]
    return False
