"""The processes of a service that has run for a day."""

from core.cluster.outages import store as outages
from core.cluster.outages.rules import ProcessKind
from core.cluster.outages.store import ProcessIdentity
from core.storage.transaction import Tx

STEADY = """UPDATE service_processes SET since_at = since_at - interval '1 day', lost_at = lost_at + interval '1 day',
  given_up_at = given_up_at + interval '1 day'"""


async def begin_steady(tx: Tx) -> None:
    """Begin processes that could take heartbeats all day, instead of those that were there."""
    await tx.execute("DELETE FROM service_processes; DELETE FROM outages")
    for kind in (ProcessKind.API, ProcessKind.REALTIME):
        await outages.begin(tx, ProcessIdentity(name=f"{kind} host:1", kind=kind, scale=1), renewed_at=None)
    await tx.execute(STEADY)
