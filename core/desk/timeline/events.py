"""Say what happened to each event on each device, for the timeline of a payment (docs/fairness.md#delivery-trail)."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import attrs

from core.base.field_types import Id, MitraId
from core.deliveries.stages import Stage
from core.storage.records import plain

MOST = 2_000  # rows of a timeline; those of invitations, of which a search may have thousands, are read last


@attrs.frozen(kw_only=True)
class DeviceStage:
    """What happened to an event on a device. `device` is null for an event that was given up for all of them."""

    device: str | None
    stage: Stage
    at: dt.datetime


@attrs.frozen(kw_only=True)
class EventTrail:
    """An event for one recipient, and what happened to it. `mitra_id` is null if the customer is the recipient."""

    event_id: Id
    event: str
    mitra_id: MitraId | None
    recipient: str | None
    stages: list[DeviceStage]


def trails_of(rows: Iterable[Any]) -> list[EventTrail]:
    """Return the events of rows, which are in the order of time."""
    found: dict[str, EventTrail] = {}
    names: dict[str, str] = {}  # by device
    used: dict[tuple[str, str], int] = {}  # (recipient, name) -> devices
    for row in rows:
        trail = found.setdefault(
            plain(row["event_id"]),
            EventTrail(
                event_id=plain(row["event_id"]),
                event=row["event"],
                mitra_id=plain(row["mitra_id"]),
                recipient=row["recipient"],
                stages=[],
            ),
        )
        device = plain(row["auth_session_id"])
        if device is not None and device not in names:
            name = _name(row["device_info"])
            count = used[key] = used.get(key := (plain(row["recipient_id"]), name), 0) + 1
            names[device] = name if count == 1 else f"{name} ({count})"
        trail.stages.append(DeviceStage(device=device and names[device], stage=Stage(row["stage"]), at=row["at"]))
    return list(found.values())


def _name(info: dict[str, str] | None) -> str:
    """Return the name of a device from what its app reported at sign-in."""
    info = info or {}
    parts = [info.get("platform"), info.get("app_version")]
    return " ".join(part for part in parts if part) or "device"
