"""The jobs process: acts on deadlines and runs the sweeps (docs/architecture.md#processes)."""

from aiohttp import web

from core.app import probes
from core.app.probes import add_probes
from core.app.reactions import open_runtime, react
from core.base.process import stop_event, tune_gc
from core.cluster.outages.rules import ProcessKind
from core.cluster.process_lease import ProcessLease
from core.runtime.publishing import Subscriber
from core.settings.settings import Settings, SettingsError
from core.telemetry import logs
from jobs.cluster_metrics import ClusterExporter
from jobs.ledger_audits import LedgerAudits
from jobs.runner import ScheduleRunner

POOL_SIZE = 6
log = logs.get("jobs")


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Raises SettingsError if the port is in use."""
    stop = stop_event()
    runtime = await open_runtime(settings, pool_size=settings.database_pool_size or POOL_SIZE, react=react)
    app = web.Application()
    add_probes(app, runtime)
    runner = probes.HttpRunner(app, runtime, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.jobs_host, settings.jobs_port).start()
    except OSError as error:
        await runtime.close()
        raise SettingsError(
            f"JOBS_PORT: expected a free port, {settings.jobs_host}:{settings.jobs_port} is in use"
        ) from error
    timers = ScheduleRunner(runtime)
    runtime.publisher.subscribe(Subscriber(on_signal=timers.on_signal))
    runtime.start(look=False)
    runtime.tasks.spawn(timers.run())
    lease = ProcessLease(runtime, ProcessKind.JOBS, host=settings.jobs_host, port=settings.jobs_port)
    runtime.tasks.spawn(lease.run())
    runtime.tasks.spawn(runtime.reports.watch())
    exporter, audits = ClusterExporter(runtime), LedgerAudits(runtime)
    runtime.tasks.spawn(exporter.run())
    runtime.tasks.spawn(audits.run())
    tune_gc()
    log.info("jobs process is running", port=settings.jobs_port)
    await stop.wait()
    await runtime.drain(stop)
    timers.stop()
    await timers.ended(settings.shutdown_grace_seconds / 2)
    await runner.cleanup()
    await exporter.end()
    await audits.end()
    await lease.end()
    await runtime.close()
    log.info("jobs process stopped")
    return 0
