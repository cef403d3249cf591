"""The reads for a new connection: chat progress, snapshot and unacknowledged events.

Connections that arrive at the same time share one statement for each of the three.
"""

import functools
from typing import Any

from core.base.actor import Actor, UserType
from core.base.batch_loader import PAUSE_S, BatchLoader
from core.events.notices import Notice
from core.runtime.container import Runtime
from core.sessions import deliver
from core.sessions.messages import chats
from core.sessions.messages.chats import ChatProgress, OpenSession

SIDES = (UserType.CUSTOMER, UserType.MITRA)


class Arrivals:
    """Batch loaders for new connections."""

    def __init__(self, runtime: Runtime) -> None:
        self._progress: dict[UserType, BatchLoader[list[ChatProgress]]] = {
            side: BatchLoader(functools.partial(chats.progress_of_parties, runtime, side), nothing=[], pause_s=PAUSE_S)
            for side in SIDES
        }
        self._snapshots: dict[UserType, BatchLoader[list[OpenSession]]] = {
            side: BatchLoader(functools.partial(chats.snapshots, runtime, side), nothing=[], pause_s=PAUSE_S)
            for side in SIDES
        }
        self._unacknowledged: BatchLoader[list[Notice]] = BatchLoader(
            functools.partial(deliver.unacknowledged, runtime), nothing=[], pause_s=PAUSE_S
        )

    async def progress(self, actor: Actor) -> list[ChatProgress]:
        """Return the progress of the caller's running chats."""
        return _flat(await self._progress[actor.user_type].of_all(actor.ids))

    async def snapshot(self, actor: Actor) -> list[OpenSession]:
        """Return the caller's running sessions, newest first."""
        found: list[OpenSession] = _flat(await self._snapshots[actor.user_type].of_all(actor.ids))
        return sorted(found, key=lambda session: session.created_at, reverse=True)

    async def unacknowledged(self, actor: Actor) -> list[Notice]:
        """Return the caller's unacknowledged events, oldest first within each of the caller's ids."""
        return _flat(await self._unacknowledged.of_all(actor.ids))


def _flat(found: list[list[Any]]) -> list[Any]:
    return [one for some in found for one in some]
