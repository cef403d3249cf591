"""Export the metrics of the whole cluster, from one jobs process at a time.

The process with the lease `metrics` reads the figures. It exports them until its lease ends, or another process has it:
a renewal that is slow or fails under load leaves no gap.
"""

import asyncio
import contextlib

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.cluster import work_lease
from core.desk.figures import cluster_figures
from core.runtime.container import Runtime
from core.telemetry import logs
from core.telemetry.cluster_series import CLUSTER

LEASE = "metrics"
# Real seconds. A renewal and a read together take less than the lease, or it is lost.
READ_EVERY_S = 15.0
RENEW_EVERY_S = 3.0
RENEW_S = 2.0
READ_S = 4.0
LEASE_S = 10.0

log = logs.get("metrics")


class ClusterExporter:
    """Exports the cluster's metrics while this process has the lease."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_ended = False
        self._read_again_at = float("-inf")

    async def run(self) -> None:
        """Hold the lease if it is free, and read the figures, until cancelled."""
        while True:
            began = monotonic()
            held = False if self._is_ended else await self._hold()
            if held is False:
                CLUSTER.drop()
                self._read_again_at = began
            elif held:
                CLUSTER.hold(until=began + LEASE_S)
                if began >= self._read_again_at:
                    self._read_again_at = began + READ_EVERY_S
                    await self._read()
            await real_sleep(max(0.0, began + RENEW_EVERY_S - monotonic()))

    async def end(self) -> None:
        """Release the lease because the process stops. Without the database it expires a few seconds later."""
        self._is_ended = True
        CLUSTER.drop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEW_S):
                await work_lease.release(self._runtime, LEASE)

    async def _hold(self) -> bool | None:
        """Take or renew the lease; return whether this process has it. None: the database did not answer in time."""
        try:
            async with asyncio.timeout(RENEW_S):
                return await work_lease.hold(self._runtime, LEASE, length_s=LEASE_S)
        except (Unavailable, TimeoutError):
            return None
        except Exception:
            log.exception("renewing the lease of the cluster's metrics failed")
            return None

    async def _read(self) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(READ_S):
                figures = await cluster_figures(self._runtime)
        except (Unavailable, TimeoutError):
            log.warning("the cluster's figures could not be read")
        except Exception:
            log.exception("reading the cluster's figures failed")
        else:
            if not self._is_ended:
                CLUSTER.show(figures, read_at=began)
