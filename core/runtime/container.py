"""The composition root: what every flow receives.

The other parts of a process are in core/runtime/transactions.py, core/runtime/publishing.py and
core/runtime/background.py.
"""

import asyncio
import contextlib
import datetime as dt
import math
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import attrs

from core.base import ids
from core.base.batch_loader import BatchLoader
from core.base.clock import Clock, monotonic
from core.base.process import wait_for_second_signal
from core.bus.buckets import Charges
from core.bus.bus import Bus
from core.bus.channels import SIGNALS
from core.bus.inbox import DevelopmentInbox
from core.bus.rate_limit import RateLimit
from core.bus.subscription import Subscription
from core.config.cache import Config
from core.events import signals
from core.events.signals import Signal
from core.providers.gateway import Gateway, make_gateway
from core.providers.http_client import HttpClient
from core.providers.identity_keys import IdentityProvider, make_identity_providers
from core.providers.otp_sender import OtpSender, make_otp_sender
from core.providers.push_sender import PushSender, make_push_sender
from core.providers.webhook_sink import WebhookSink
from core.runtime.background import BackgroundTasks, ChangePoll, keep_clock, open_clock, warn_of_losses
from core.runtime.publishing import Caches, Publisher
from core.runtime.transactions import open_transaction
from core.security.access import AccessTokens
from core.security.caches import RevokedLogins
from core.security.keys import Keys
from core.security.passwords import PasswordHasher
from core.settings.settings import Settings
from core.storage.database import Database
from core.storage.errors import as_unavailable
from core.storage.migrations import migration_ids
from core.storage.reports import Reports
from core.storage.transaction import Port, Tx
from core.telemetry import logs

LEASE_ATTEMPT_S = 1.0  # real seconds after which a statement about the process's lease has failed
GATEWAY_SLOTS, VOID_SLOTS = 8, 4  # concurrent polls of the gateway, and concurrent calls that void an invoice
CODE_SENDS = 16  # concurrent calls to the OTP provider that no request waits for
CLOCK_MARGIN_S = 60.0  # how much clocks may differ when an access token expires
log = logs.get("runtime")
T = TypeVar("T")
# Returns the flow that follows a signal of this process; core.app.reactions.react is the one of the services.
Reaction = Callable[["Runtime", Signal], Coroutine[Any, Any, None] | None]
READY_S = 1.0  # for which the result of a readiness probe is cached


class Readiness:
    """The readiness of one process. `draining`: it is stopping, so no longer ready, but still serves."""

    def __init__(self, db: Database, bus: Bus) -> None:
        self._db = db
        self._bus = bus
        self._found: tuple[bool, bool, str | None] = (False, False, None)
        self._valid_until = 0.0
        self._checking = asyncio.Lock()
        self.draining = False

    async def check(self) -> tuple[bool, bool, str | None]:
        """Return (ready, degraded, reason); a ready process has no reason.

        Ready: the process is not stopping, and the database answers, is writable and is migrated. Degraded: the bus
        does not answer. The result is cached for READY_S, so probes from outside can't load the database.
        """
        if self.draining:
            return False, False, "the process is stopping"
        async with self._checking:
            if monotonic() >= self._valid_until:
                self._found = await self._check_backends()
                self._valid_until = monotonic() + READY_S
        return self._found

    async def _check_backends(self) -> tuple[bool, bool, str | None]:
        try:
            async with asyncio.timeout(3):
                writable = await self._db.is_writable()
                names = {row["name"] for row in await self._db.fetch("SELECT name FROM migration")}
        except Exception as error:
            return False, False, f"the database does not answer ({type(error).__name__})"
        if not writable:
            return False, False, "the database is read-only"
        if migration_ids() - names:
            return False, False, "the database is not migrated: run `sesi migrate`"
        return True, not await self._bus.ping(), None


@attrs.frozen(kw_only=True)
class Databases:
    """The pools of a process. `commits` is `db` unless messages have their own pool; `leases` has one connection."""

    db: Database
    commits: Database
    leases: Database
    reports: Reports

    async def close(self) -> None:
        """Close all connections."""
        await self.reports.close()
        await self.leases.close()
        await self.db.close()
        if self.commits is not self.db:
            await self.commits.close()


async def open_databases(settings: Settings, *, pool_size: int, commit_pool_size: int) -> Databases:
    """Open the pools; messages get their own one unless `commit_pool_size` is 0.

    The replica is connected at its first use. Raises Unavailable if the primary does not answer.
    """
    async with contextlib.AsyncExitStack() as opened:
        with as_unavailable():
            commits = db = await _connect(settings, "write", pool_size)
            opened.push_async_callback(db.close)
            if commit_pool_size:
                commits = await _connect(settings, "messages", commit_pool_size)
                opened.push_async_callback(commits.close)
            leases = await db.separate(name="lease", statement_s=LEASE_ATTEMPT_S)
            opened.push_async_callback(leases.close)
            reports = await Reports.open(db, settings.database_read_url, through_pooler=settings.through_pooler)
        opened.pop_all()
    return Databases(db=db, commits=commits, leases=leases, reports=reports)


async def _connect(settings: Settings, name: str, size: int) -> Database:
    return await Database.connect(settings.database_url, size=size, through_pooler=settings.through_pooler, name=name)


@attrs.define(kw_only=True)
class Runtime:
    """The connections of one process and what it knows."""

    settings: Settings
    clock: Clock
    db: Database
    # For messages and read markers. In the realtime process it is separate, so that other queries never delay commits.
    commits: Database
    reports: Reports
    leases: Database  # one connection for the process's lease: a busy pool must not look like an outage
    bus: Bus
    config: Config
    tokens: AccessTokens
    keys: Keys
    passwords: PasswordHasher
    http: HttpClient  # for all providers
    otp_sender: OtpSender
    webhook_sink: WebhookSink
    identity_providers: dict[str, IdentityProvider]
    gateway: Gateway | None
    push_sender: PushSender
    rate_limit: RateLimit
    reaction_slots: asyncio.Semaphore  # for reactions that work in the database
    gateway_slots: asyncio.Semaphore  # for polls of the gateway that no customer waits for
    void_slots: asyncio.Semaphore  # for voiding invoices; separate, so that voiding never delays polls
    code_sends: asyncio.Semaphore  # for sending sign-in codes to mitras
    port: Port
    reaction: Reaction | None
    node: str = attrs.field(factory=ids.new_id)
    tasks: BackgroundTasks = attrs.field(factory=BackgroundTasks)
    loaders: dict[str, BatchLoader[Any]] = attrs.field(factory=dict)  # batch loaders of shared reads, by name
    parts: dict[Callable[["Runtime"], Any], Any] = attrs.field(factory=dict)  # see `part`
    closing: list[Callable[[], Awaitable[None]]] = attrs.field(factory=list)  # ends parts, before the pools close
    # One lock for each (user id, Idempotency-Key) that requests of this process wait for.
    key_locks: "weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]" = attrs.Factory(weakref.WeakValueDictionary)
    # When this process last refused a client or lost a heartbeat because of overload (monotonic seconds).
    overloaded_at: float = -math.inf
    # Progress of syncing the message statuses of very long chats, by session id.
    synced_up_to: dict[str, int] = attrs.field(factory=dict)
    caches: Caches = attrs.field(init=False)
    publisher: Publisher = attrs.field(init=False)
    changes: ChangePoll = attrs.field(init=False)
    readiness: Readiness = attrs.field(init=False)
    inbox: DevelopmentInbox | None = attrs.field(init=False, default=None)  # not in production

    def __attrs_post_init__(self) -> None:
        self.caches = Caches(revoked=RevokedLogins(keep_s=self.token_life_s))
        self.publisher = Publisher(bus=self.bus, node=self.node, caches=self.caches, react=self._react)
        self.changes = ChangePoll(
            db=self.db,
            config=self.config,
            settings=self.settings,
            caches=self.caches,
            publisher=self.publisher,
        )
        self.readiness = Readiness(self.db, self.bus)
        if self.settings.development_routes:
            self.inbox = DevelopmentInbox(self.bus.client_of, now=self.now, follow=self.tasks.follow)

    @property
    def token_life_s(self) -> float:
        """Real seconds after which every access token made before now has expired."""
        return self.settings.access_token_seconds / self.settings.sesi_time_scale + CLOCK_MARGIN_S

    def now(self) -> dt.datetime:
        """Return the service time."""
        return self.clock.now()

    def transaction(self) -> contextlib.AbstractAsyncContextManager[Tx]:
        """Open a write transaction. After its commit, send its events and signals and start the flows that follow.

        Raises Unavailable if the database does not answer, is overloaded, or keeps the transaction waiting for a lock
        too long.
        """
        return open_transaction(self.db, self.now, self.publisher, self.port)

    async def in_batches(self, step: Callable[[Tx], Awaitable[int]], *, at_once: int) -> int:
        """Run a step that touches at most `at_once` rows, each time in its own transaction, until fewer were left.

        Return how many rows it touched. Raises Unavailable; what was committed stays.
        """
        total = 0
        while True:
            async with self.transaction() as tx:
                done = await step(tx)
            total += done
            if done < at_once:
                return total

    async def charge(self, charges: Charges, otherwise: Charges = ()) -> None:
        """Take one token from each of these buckets, otherwise of the others. Raises RateLimited."""
        await self.rate_limit.take_all(charges, otherwise, now_us=int(self.now().timestamp() * 1_000_000))

    def part(self, make: Callable[["Runtime"], T]) -> T:
        """Return what a domain keeps in this process: the object that `make` returned at its first call."""
        if make not in self.parts:
            self.parts[make] = make(self)
        return self.parts[make]

    def note_overload(self) -> None:
        """Record that this process refused a client or lost a heartbeat just now, because it is overloaded."""
        self.overloaded_at = monotonic()

    def _react(self, signal: Signal) -> None:
        """Start the flow that follows a signal of this process."""
        follow = self.reaction(self, signal) if self.reaction is not None else None
        if follow is not None:
            self.tasks.follow(follow)

    def start(self, *, look: bool = True) -> None:
        """Start the background tasks: the bus, the clock and, if `look` is set, the poll for changes."""
        self.tasks.spawn(self.bus.run())
        self.tasks.spawn(Subscription(self.bus, self._on_signal, self.publisher.on_resubscribe, SIGNALS).run())
        self.tasks.spawn(keep_clock(self.clock, self.db))
        self.tasks.follow(warn_of_losses(self.db, production=self.settings.production))
        if look:
            self.tasks.spawn(self.changes.run())

    async def _on_signal(self, _channel: str, data: bytes) -> None:
        signal = signals.decode(data)
        if signal is None:
            return
        if isinstance(signal, signals.ConfigChanged):
            await self.changes.refresh_config()
        await self.publisher.receive(signal)

    async def drain(self, stop: asyncio.Event) -> bool:
        """Stop being ready but keep serving for DRAIN_SECONDS, so that load balancers send new clients elsewhere.

        `stop` is the event of the process's signals: a second signal ends the wait. Return whether one came.
        """
        self.readiness.draining = True
        log.info("draining", seconds=self.settings.drain_seconds)
        return await wait_for_second_signal(stop, self.settings.drain_seconds)

    async def close(self) -> None:
        """Finish the flows that follow commits, send the last signals, and close all connections."""
        await self.tasks.finish_followers(timeout_s=min(2.0, self.settings.shutdown_grace_seconds / 2))
        await self.bus.drain()
        await self.tasks.cancel()
        await self.http.close()
        self.passwords.close()
        for close in self.closing:
            await close()
        await self.rate_limit.close()
        await self.bus.close()
        await self.reports.close()
        await self.leases.close()
        await self.db.close()
        if self.commits is not self.db:
            await self.commits.close()


async def connect(
    settings: Settings, *, pool_size: int, commit_pool_size: int, port: Port, react: Reaction | None
) -> Runtime:
    """Connect to all backends, set the clock and read the configuration.

    Messages are committed over a pool of `commit_pool_size` connections; 0 uses the common pool. `port` is what domains
    do in the transactions of those below them. `react` returns the flow that follows a signal of this process; None: no
    flow follows. Raises SettingsError if SESI_TIME_ANCHOR differs from the database's anchor, and Unavailable if the
    database does not answer.
    """
    databases = await open_databases(settings, pool_size=pool_size, commit_pool_size=commit_pool_size)
    try:
        clock = await open_clock(settings, databases.db)
        http = HttpClient()
        keys = Keys(secret for _, secret in settings.jwt_secrets)
        runtime = Runtime(
            settings=settings,
            clock=clock,
            db=databases.db,
            commits=databases.commits,
            leases=databases.leases,
            reports=databases.reports,
            bus=(bus := Bus(settings.redis_url)),
            config=Config(),
            tokens=AccessTokens(settings.jwt_secrets),
            keys=keys,
            passwords=PasswordHasher(rounds=settings.password_rounds),
            http=http,
            otp_sender=make_otp_sender(settings, http),
            webhook_sink=WebhookSink(settings),
            identity_providers=make_identity_providers(
                settings,
                http,
                development_secret=keys.development_identity if settings.development_identities else None,
            ),
            gateway=make_gateway(settings, http),
            push_sender=make_push_sender(settings, clock, http),
            rate_limit=RateLimit(settings, bus),
            reaction_slots=asyncio.Semaphore(max(1, pool_size * 2 // 3)),
            gateway_slots=asyncio.Semaphore(GATEWAY_SLOTS),
            void_slots=asyncio.Semaphore(VOID_SLOTS),
            code_sends=asyncio.Semaphore(CODE_SENDS),
            port=port,
            reaction=react,
        )
        await bus.find()
        await runtime.changes.look(back_s=runtime.token_life_s)
    except BaseException:
        await databases.close()
        raise
    return runtime
