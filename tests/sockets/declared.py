"""Check every frame that a test receives against the declared frame classes (realtime/server_frames.py)."""

import datetime as dt
import functools
import operator
from typing import Any

import msgspec

from core.base.actor import UserType
from core.pairing.events import FIELD_OF_STATUS, PairingStatus
from realtime import server_frames

DECODERS: dict[tuple[str, UserType], msgspec.json.Decoder[Any]] = {
    place: msgspec.json.Decoder(functools.reduce(operator.or_, kinds)) for place, kinds in server_frames.FRAMES.items()
}
# Fields that processes of the previous release don't send; during a rolling deploy their frames lack them.
ADDED = frozenset({"peer_absent_since", "peer_delivered_up_to", "peer_read_up_to"})
# The deviations that the running test has seen; tests/conftest.py reads the list when the test ends.
UNDECLARED: list[str] = []


def read(path: str, user_type: str, frame: dict[str, Any]) -> server_frames.ServerFrame:
    """Return the frame as an instance of its class. Raises ValueError for unknown, missing or misspelled fields."""
    read = DECODERS[(path, UserType(user_type))].decode(msgspec.json.encode(frame))
    _same(frame, msgspec.to_builtins(read), frame["type"])
    if isinstance(read, server_frames.Error) and read.code not in server_frames.CODES:
        raise ValueError(f"{read.code} is not declared in realtime/server_frames.py")
    if frame["type"] == PairingStatus.type_name():
        fields = set(frame) & set(FIELD_OF_STATUS.values())
        if fields != {FIELD_OF_STATUS[frame["status"]]}:
            raise ValueError(f"pairing_status {frame['status']} has {sorted(fields)}")
    return read


def check_frame(path: str, frame: dict[str, Any], first: dict[str, Any]) -> None:
    """Record a deviation from the frames of the path and of the user, named by the socket's first frame."""
    try:
        if next(iter(frame)) != "type":
            raise ValueError("`type` is not the first field")
        if first["type"] == "auth_ok":
            read(path, first["user"]["type"], frame)
    except Exception as error:
        UNDECLARED.append(f"/ws/{path} {type(error).__name__}: {error}: {frame}")


def _same(sent: Any, read: Any, place: str) -> None:
    """Check that encoding the read frame gives what was sent: nothing was dropped, and times have the one format."""
    if isinstance(sent, dict) and isinstance(read, dict):
        if sent.keys() != read.keys() - (ADDED - sent.keys()):
            raise ValueError(f"{place}: {sorted(sent.keys() ^ read.keys())} are not declared")
        for name in sent:
            _same(sent[name], read[name], f"{place}.{name}")
    elif isinstance(sent, list) and isinstance(read, list) and len(sent) == len(read):
        for n, (one, other) in enumerate(zip(sent, read, strict=True)):
            _same(one, other, f"{place}[{n}]")
    elif sent != read and not _same_time(sent, read):
        raise ValueError(f"{place}: {sent!r} was read as {read!r}")


def _same_time(sent: Any, read: Any) -> bool:
    try:
        return sent.endswith("Z") and dt.datetime.fromisoformat(sent) == dt.datetime.fromisoformat(read)
    except (AttributeError, ValueError):
        return False
