"""The service's own audits of the ledger, which tests make due."""

from core.desk.audits.rules import Depth, lease_of
from tests.stack import World

DUE = """UPDATE cluster_leases SET done_real_at = done_real_at - interval '2 days'
  WHERE name = $1 AND (until_real_at IS NULL OR until_real_at <= clock_timestamp()) RETURNING 1"""


async def make_due(world: World, depth: Depth) -> None:
    """Make an audit due that reads what is stored now.

    An audit that is under way has read some of the rows already, and its end would undo the mark, so it is waited for.
    """
    await world.until(lambda: world.stack.sql(DUE, lease_of(depth)), bool, timeout=60)
