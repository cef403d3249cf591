"""The realtime process: serves all WebSockets and sends pushes (docs/architecture.md#processes)."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable

from aiohttp import web

from core.app.probes import add_probes
from core.app.reactions import open_runtime, react
from core.base.process import raise_file_limit, stop_event, tune_gc, wait_for_second_signal
from core.cluster.outages.rules import ProcessKind
from core.cluster.process_lease import ProcessLease
from core.runtime.publishing import Subscriber
from core.security.connections import BACKLOG
from core.settings.settings import Settings, SettingsError
from core.telemetry import logs
from realtime import close_codes, push
from realtime.acks import Acks
from realtime.admission import SocketAdmission
from realtime.commands import Commands
from realtime.handshake import Arrivals
from realtime.hub import Hub
from realtime.message_batch import BatchStore, MessageStatuses
from realtime.message_queue import MessageQueue
from realtime.message_schedule import MOST_AT_ONCE, MessageSchedule
from realtime.protocol import SocketRunner
from realtime.revocation import Revocation
from realtime.socket import Sockets
from realtime.watch import SocketWatch

POOL_SIZE = 13
log = logs.get("realtime")


def interface(settings: Settings) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of the AsyncAPI document, which is generated at the first request."""

    @functools.cache
    def document() -> bytes:
        from realtime import asyncapi  # most processes never need it

        return asyncapi.encoded(settings)

    async def serve_document(_: web.Request) -> web.Response:
        return web.Response(body=await asyncio.to_thread(document), content_type="application/json")

    return serve_document


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. On the way out, commit queued messages and close every socket with 1012.

    Raises SettingsError if the port is in use.
    """
    stop = stop_event()
    raise_file_limit()
    size = settings.database_pool_size or POOL_SIZE
    commits = min(MOST_AT_ONCE + 1, size // 2)
    runtime = await open_runtime(settings, pool_size=size - commits, commit_pool_size=commits, react=react)
    queue = MessageQueue()
    hub = Hub(runtime, queue)
    statuses = MessageStatuses(runtime)
    store = BatchStore(hub, queue, statuses).store
    messages = MessageSchedule(queue, store, crossed_within=hub.feeds.crossed_within)
    revocation = Revocation(hub)
    watch = SocketWatch(hub, revocation)
    runtime.publisher.subscribe(
        Subscriber(on_frames=hub.send, on_signal=revocation.on_signal, on_resubscribe=watch.on_resubscribe)
    )
    runtime.publisher.other_hubs = hub.other_hubs
    runtime.db.subscribe_to_new_epoch(hub.on_new_epoch)
    runtime.db.subscribe_to_new_epoch(statuses.forget)
    acks = Acks(runtime)
    commands = Commands(hub, messages, acks)
    arrivals = Arrivals(runtime)
    admission = SocketAdmission(settings, overloaded=runtime.note_overload)
    paths = {f"/ws/{path}": Sockets(hub, commands, arrivals, admission, path) for path in ("chat", "pairing")}
    app = web.Application()
    for path, sockets in paths.items():
        app.router.add_get(path, sockets.serve)
    app.router.add_get("/asyncapi.json", interface(settings))
    add_probes(app, runtime)
    runner = SocketRunner(app, runtime, {path: sockets.upgrade for path, sockets in paths.items()})
    await runner.setup()
    runtime.start()
    await hub.other_hubs.announce()  # before the first socket
    site = web.TCPSite(runner, settings.realtime_host, settings.realtime_port, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        await runtime.close()
        raise SettingsError(
            f"REALTIME_PORT: expected a free port, {settings.realtime_host}:{settings.realtime_port} is in use"
        ) from error
    runtime.tasks.spawn(hub.heard.run())
    runtime.tasks.spawn(hub.other_hubs.run())
    runtime.tasks.spawn(messages.run())
    runtime.tasks.spawn(statuses.run())
    runtime.tasks.spawn(acks.run())
    runtime.tasks.spawn(hub.sent_events.run())
    runtime.tasks.spawn(admission.watch())
    runtime.tasks.spawn(watch.tick())
    runtime.tasks.spawn(watch.find_events())
    runtime.tasks.spawn(watch.find_messages())
    runtime.tasks.spawn(push.run(runtime, hub.heard))
    runtime.tasks.spawn(commands.heartbeats.store_failed())
    runtime.tasks.spawn(commands.signs.run())
    lease = ProcessLease(runtime, ProcessKind.REALTIME, host=settings.realtime_host, port=settings.realtime_port)
    runtime.tasks.spawn(lease.run())
    tune_gc()
    log.info("realtime process is listening", port=settings.realtime_port)
    await stop.wait()
    hurried = await runtime.drain(stop)
    for sockets in paths.values():
        sockets.accepting = False
    if not hurried:
        await hub.connections.close_in_portions(close_codes.GOING_AWAY, functools.partial(wait_for_second_signal, stop))
    for sockets in paths.values():
        sockets.open = False
    await site.stop()
    await messages.drained(max(1.0, settings.shutdown_grace_seconds - 5.0))
    hub.connections.close_all(close_codes.GOING_AWAY)
    admission.close_unknown(close_codes.GOING_AWAY)
    await hub.connections.settled(2.5)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            await runner.cleanup()
    await hub.sent_events.drained(1.0)
    await lease.end()
    await runtime.close()
    log.info("realtime process stopped")
    return 0
