"""The composition root: what every flow receives, and what follows a commit.

A flow receives the database, the bus, the clock, the configuration and the providers. Signals are sent after the commit
and may be lost (docs/architecture.md#signals). So each process also polls the database every LOOK_EVERY_S for changed
configuration, revoked auth sessions and joined accounts.
"""

import asyncio
import contextlib
import datetime as dt
import functools
import math
import os
import pathlib
import signal
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import attrs

from core.base import ids, logs, metrics
from core.base.batch_loader import BatchLoader
from core.base.clock import SLEW_S, Clock, monotonic, real_sleep
from core.base.errors import DomainError, Unavailable
from core.base.keys import Keys
from core.base.process import wait_for_second_signal
from core.base.settings import Settings, SettingsError
from core.bus.bus import SIGNALS, Bus, frames_of
from core.bus.rate_limit import Charges, RateLimit
from core.config import store as config_store
from core.config.cache import Config
from core.config.keys import effective
from core.customers import store as customers
from core.customers.accounts import Accounts
from core.events import notices, signals
from core.events.notices import Envelope
from core.events.signals import Signal
from core.logins.access import AccessTokens
from core.logins.passwords import PasswordHasher
from core.logins.revoked import RevokedLogins
from core.outages.rules import ATTEMPT_S
from core.providers.gateway import Gateway, make_gateway
from core.providers.identity_keys import IdentityProvider, make_identity_providers
from core.providers.otp_sender import OtpSender, make_otp_sender
from core.providers.push_sender import PushSender, make_push_sender
from core.providers.webhook_sink import WebhookSink
from core.storage.database import TRANSIENT_ERRORS, Database, Tx
from core.webhooks.flood_counts import FloodCounts

LOOK_EVERY_S = 0.8  # a revoked token or an old configuration value is used for a second at most
CLOCK_EVERY_S = 60.0
GATEWAY_SLOTS, VOID_SLOTS = 8, 4  # concurrent polls of the gateway, and concurrent calls that void an invoice
UNPROVEN_CALLS = 2  # database connections for storing webhook calls without a valid token
CODE_SENDS = 16  # concurrent calls to the OTP provider that no request waits for
PAID_KEPT = 50_000
READY_S = 1.0  # for which the result of a readiness probe is cached
CLOCK_MARGIN_S = 60.0  # how much clocks may differ when an access token expires
OVERLAP_S = 10.0  # the most between a revocation's timestamp and its commit
# The version of the configuration, and the auth sessions revoked and the accounts joined in the last $1 seconds.
# statement_timestamp(), not clock_timestamp(): the latter is volatile and can't bound an index scan.
NEWS = f"""SELECT {config_store.VERSION} AS config_version,
  ARRAY(SELECT id::text FROM auth_sessions WHERE revoked_real_at > statement_timestamp() - make_interval(secs => $1)) AS revoked,
  ARRAY(SELECT account_belongs_to::text || ' ' || id::text FROM customers
    WHERE joined_real_at > statement_timestamp() - make_interval(secs => $1) AND account_belongs_to IS NOT NULL) AS joined"""
MIGRATIONS = pathlib.Path(__file__).parents[1] / "piccolo_migrations"

log = logs.get("runtime")
Reaction = Callable[["Runtime", Signal], Coroutine[Any, Any, None] | None]


@attrs.define(kw_only=True)
class Runtime:
    """The connections of one process and what it knows."""

    settings: Settings
    clock: Clock
    db: Database
    # For messages and read markers. The realtime process has a separate pool, so that other queries never delay
    # commits.
    commits: Database
    leases: Database  # one connection for the process's lease: a busy pool must not look like an outage
    bus: Bus
    config: Config
    tokens: AccessTokens
    keys: Keys
    passwords: PasswordHasher
    otp_sender: OtpSender
    webhook_sink: WebhookSink
    identity_providers: dict[str, IdentityProvider]
    gateway: Gateway | None
    push_sender: PushSender
    rate_limit: RateLimit
    reaction_slots: asyncio.Semaphore  # for reactions that work in the database
    gateway_slots: asyncio.Semaphore  # for polls of the gateway that no customer waits for
    void_slots: asyncio.Semaphore  # for voiding invoices; separate, so that voiding never delays polls
    unproven_calls: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(UNPROVEN_CALLS))
    flood_counts: FloodCounts = attrs.field(init=False)
    code_sends: asyncio.Semaphore  # for sending sign-in codes to mitras
    accounts: Accounts = attrs.field(factory=Accounts)
    callers_ids: BatchLoader[tuple[str, ...]] = attrs.field(init=False)
    loaders: dict[str, BatchLoader[Any]] = attrs.field(factory=dict)  # batch loaders of shared reads, by name
    node: str = attrs.field(factory=ids.new_id)
    revoked: RevokedLogins = attrs.field(init=False)
    # Customers who paid lately, whose access tokens may still say that they are newcomers. Cleared at PAID_KEPT.
    paid: set[str] = attrs.field(factory=set)
    # One lock for each (user id, Idempotency-Key) that requests of this process wait for.
    key_locks: "weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]" = attrs.field(
        factory=weakref.WeakValueDictionary
    )
    _readiness: tuple[bool, bool, str | None] = (False, False, None)
    _ready_until: float = 0.0
    _looking: asyncio.Lock = attrs.field(factory=asyncio.Lock)
    # When this process last refused a client or lost a heartbeat because of overload (monotonic seconds).
    overloaded_at: float = -math.inf
    draining: bool = False  # stopping: no longer ready, still serving
    # Progress of syncing the message statuses of very long chats, by session id.
    synced_up_to: dict[str, int] = attrs.field(factory=dict)
    # Set to core.reactions.react: returns the flow that follows a committed signal in this process.
    react: Reaction | None = None
    # Set by the realtime process: gives an envelope to its own sockets without the bus.
    deliver_locally: Callable[[Envelope], None] | None = None
    subscribers: list[Callable[[Signal], Awaitable[None] | None]] = attrs.field(factory=list)
    on_resubscribe: list[Callable[[], None]] = attrs.field(factory=list)
    _tasks: set[asyncio.Task[Any]] = attrs.field(factory=set)
    _followers: set[asyncio.Task[Any]] = attrs.field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.flood_counts = FloodCounts(self.db)
        self.revoked = RevokedLogins(keep_s=self.token_life_s)
        self.callers_ids = BatchLoader(functools.partial(customers.ids_of_all, self.db), nothing=())

    @property
    def token_life_s(self) -> float:
        """Real seconds after which every access token made before now has expired."""
        return self.settings.access_token_seconds / self.settings.sesi_time_scale + CLOCK_MARGIN_S

    # -- time and transactions

    def now(self) -> dt.datetime:
        """Return the service time."""
        return self.clock.now()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Open a write transaction. After its commit, send its events and signals and start the flows that follow.

        Raises Unavailable if the database does not answer, is overloaded, or keeps the transaction waiting for a lock
        too long.
        """
        with translate_db_errors():
            async with self.db.transaction(self.now) as tx:
                yield tx
        self.publish_frames(Envelope(notices=tx.notices, ephemeral=tx.ephemeral))
        for emitted in tx.signals:
            self.publish_signal(emitted)

    async def charge(self, charges: Charges) -> None:
        """Take one token from each of these buckets. Raises RateLimited."""
        await self.rate_limit.take_all(charges, now_us=int(self.now().timestamp() * 1_000_000))

    def note_overload(self) -> None:
        """Record that this process refused a client or lost a heartbeat just now, because it is overloaded."""
        self.overloaded_at = monotonic()

    # -- publishing

    def publish_frames(self, envelope: Envelope) -> None:
        """Send committed events and frames to users' sockets, in this process and in all others."""
        if not (envelope.notices or envelope.messages or envelope.ephemeral):
            return
        if self.deliver_locally is not None:
            self.deliver_locally(envelope)
        self.bus.publish(frames_of(self.node), notices.encode(envelope))

    def publish_signal(self, signal: Signal) -> None:
        """Publish a signal to all processes and start the flow that follows it here."""
        self._update_caches(signal)
        self.bus.publish(SIGNALS, signals.encode(signal))
        if self.react is not None:
            follow = self.react(self, signal)
            if follow is not None:
                self.follow(follow)

    def _update_caches(self, signal: Signal) -> None:
        """Apply a signal to this process's own caches, whether it came from this process or another."""
        if isinstance(signal, signals.LoginsRevoked):
            self.revoked.add(signal.auth_session_ids, now=monotonic())
        if isinstance(signal, signals.AccountJoined):
            self.accounts.forget(signal.customer_id)
        if isinstance(signal, signals.PaymentConfirmed) and signal.customer_id is not None:
            if len(self.paid) >= PAID_KEPT:
                self.paid.clear()
            self.paid.add(signal.customer_id)

    def follow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that continues after its caller has ended.

        When the process stops, it waits at most 2 s for this work.
        """
        task = asyncio.create_task(self._quietly(work))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)
        return task

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that follows a commit, and log its failure.

        If it fails, the sweeps find the same work in the database.
        """
        try:
            await work
        except (DomainError, *TRANSIENT_ERRORS) as error:
            log.warning("reaction failed; a sweep will do its work", error=type(error).__name__)
        except Exception:
            log.exception("reaction failed")

    # -- lifecycle

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task until the process stops. If the task ends early, the process stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Stop the process if a background task has ended: without one of its tasks it must not look healthy."""
        self._tasks.discard(task)
        if not task.cancelled():
            log.critical("background task failed; stopping the process", exc_info=task.exception())
            os.kill(os.getpid(), signal.SIGTERM)

    def start(self, *, look: bool = True) -> None:
        """Start the background tasks: the bus, the clock and, if `look` is set, the poll for changes."""
        self.spawn(self.bus.run_writer())
        self.spawn(self.bus.listen([SIGNALS], self._on_signal, self._resubscribed))
        self.spawn(self._keep_clock())
        if look:
            self.spawn(self._keep_looking())

    async def _on_signal(self, _channel: str, data: bytes) -> None:
        signal = signals.decode(data)
        if signal is None:
            return
        if isinstance(signal, signals.ConfigChanged):
            await self.refresh_config()
        await self._dispatch(signal)

    async def _dispatch(self, signal: Signal) -> None:
        self._update_caches(signal)
        for subscriber in self.subscribers:
            result = subscriber(signal)
            if result is not None:
                await result

    def _resubscribed(self) -> None:
        for callback in self.on_resubscribe:
            callback()

    async def _keep_clock(self) -> None:
        changed = asyncio.Event()
        self.db.on_new_epoch.append(changed.set)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOCK_EVERY_S):
                    await changed.wait()
            changed.clear()
            try:
                await self.set_clock()
            except TRANSIENT_ERRORS:
                continue
            except Exception:
                log.exception("setting the service clock failed")

    async def set_clock(self, db: Database | None = None) -> None:
        """Set this process's clock to the database's time. `db` None: over the common pool."""
        at, monotonic_at = await (db or self.db).clock()
        behind = self.clock.set_real(at, at_monotonic=monotonic_at)
        metrics.CLOCK_OFFSET.set(behind)
        if abs(behind) > SLEW_S:
            metrics.CLOCK_STEPS.inc()
            log.error("the service clock differed from the database's by more than a second", seconds=round(behind, 3))

    async def _keep_looking(self) -> None:
        looked = monotonic()
        while True:
            await real_sleep(LOOK_EVERY_S)
            started = monotonic()
            try:
                await self.look(back_s=started - looked + OVERLAP_S)
                looked = started
            except TRANSIENT_ERRORS:
                continue
            except Exception:
                log.exception("polling for changes failed")

    async def look(self, *, back_s: float = 10.0) -> None:
        """Read what changed in the last `back_s` real seconds: configuration, revoked auth sessions, joined accounts.

        This also notices that a standby was promoted, and then `Database.on_new_epoch` is called.
        """
        await self.db.is_writable()
        row = await self.db.fetchrow(NEWS, back_s)
        fresh = [sid for sid in row["revoked"] if sid not in self.revoked]
        if fresh:
            await self._dispatch(signals.LoginsRevoked(auth_session_ids=fresh))
        for pair in row["joined"]:  # repeated for OVERLAP_S, because a read of the account may have been in progress
            customer_id, joined_id = pair.split()
            await self._dispatch(signals.AccountJoined(customer_id=customer_id, joined_id=joined_id))
        await self.follow_config(row["config_version"])

    async def follow_config(self, version: str | None) -> None:
        """Read the configuration again unless `version`, the version in the database, is the one known here."""
        if version != self.config.version:
            await self.refresh_config()

    async def refresh_config(self) -> None:
        """Read all configuration rows.

        If two reads overlap, the older one may finish last. The next poll notices the version and reads again.
        """
        values, self.config.version = await config_store.read_all(self.db)
        self.config.values = effective(values, cadence_seconds=self.settings.mitra_heartbeat_cadence_seconds)

    async def ready(self) -> tuple[bool, bool, str | None]:
        """Return (ready, degraded, reason); a ready process has no reason.

        Ready: the process is not stopping, and the database answers, is writable and is migrated. Degraded: the bus
        does not answer. The result is cached for READY_S, so probes from outside can't load the database.
        """
        if self.draining:
            return False, False, "the process is stopping"
        async with self._looking:
            if monotonic() >= self._ready_until:
                self._readiness = await self._look_whether_ready()
                self._ready_until = monotonic() + READY_S
        return self._readiness

    async def _look_whether_ready(self) -> tuple[bool, bool, str | None]:
        try:
            async with asyncio.timeout(3):
                writable = await self.db.is_writable()
                names = {row["name"] for row in await self.db.fetch("SELECT name FROM migration")}
        except Exception as error:
            return False, False, f"the database does not answer ({type(error).__name__})"
        if not writable:
            return False, False, "the database is read-only"
        missing = migration_ids() - names
        if missing:
            return False, False, "the database is not migrated: run `sesi migrate`"
        return True, not await self.bus.ping(), None

    async def drain(self, stop: asyncio.Event) -> bool:
        """Stop being ready but keep serving for DRAIN_SECONDS, so that load balancers send new clients elsewhere.

        `stop` is the event of the process's signals: a second signal ends the wait. Return whether one came.
        """
        self.draining = True
        log.info("draining", seconds=self.settings.drain_seconds)
        return await wait_for_second_signal(stop, self.settings.drain_seconds)

    async def close(self) -> None:
        """Finish the flows that follow commits, send the last signals, and close all connections."""
        if self._followers:
            await asyncio.wait(self._followers, timeout=min(2.0, self.settings.shutdown_grace_seconds / 2))
        await self.bus.drain()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)
        self.passwords.close()
        await self.flood_counts.close()
        await self.rate_limit.close()
        await self.bus.close()
        await self.leases.close()
        await self.db.close()
        if self.commits is not self.db:
            await self.commits.close()


@contextlib.contextmanager
def translate_db_errors() -> Any:
    """Turn all errors of an unreachable or overloaded database into Unavailable (503)."""
    try:
        yield
    except TRANSIENT_ERRORS as error:
        log.warning("the database did not answer", error=type(error).__name__)
        raise Unavailable from error


@functools.cache
def migration_ids() -> frozenset[str]:
    """Return the ids of all migrations in this version of the code."""
    found = set()
    for path in MIGRATIONS.glob("sesi_*.py"):
        for line in path.read_text().splitlines():
            if line.startswith("ID = "):
                found.add(line.split('"')[1])
    return frozenset(found)


async def open_runtime(settings: Settings, *, pool_size: int = 16, commit_pool_size: int = 0) -> Runtime:
    """Connect to all backends, set the clock and read the configuration.

    Messages are committed over a pool of `commit_pool_size` connections; 0 uses the common pool. Raises SettingsError
    if SESI_TIME_ANCHOR differs from the database's anchor, and Unavailable if the database does not answer.
    """
    with translate_db_errors():
        db = await Database.connect(settings.database_url, size=pool_size)
    commits = db
    try:
        if commit_pool_size:
            with translate_db_errors():
                commits = await Database.connect(settings.database_url, size=commit_pool_size)
        with translate_db_errors():
            clock = await _open_clock(settings, db)
        runtime = Runtime(
            settings=settings,
            clock=clock,
            db=db,
            commits=commits,
            leases=await db.separate(statement_s=ATTEMPT_S),
            bus=Bus(settings.redis_url),
            config=Config(),
            tokens=AccessTokens(settings.jwt_secrets),
            keys=Keys(secret for _, secret in settings.jwt_secrets),
            passwords=PasswordHasher(rounds=settings.password_rounds),
            otp_sender=make_otp_sender(settings),
            webhook_sink=WebhookSink(settings),
            identity_providers=make_identity_providers(settings),
            gateway=make_gateway(settings),
            push_sender=make_push_sender(settings, clock),
            rate_limit=RateLimit(settings),
            reaction_slots=asyncio.Semaphore(max(1, pool_size * 2 // 3)),
            gateway_slots=asyncio.Semaphore(GATEWAY_SLOTS),
            void_slots=asyncio.Semaphore(VOID_SLOTS),
            code_sends=asyncio.Semaphore(CODE_SENDS),
        )
        await runtime.look(back_s=runtime.token_life_s)
    except BaseException:
        await db.close()
        if commits is not db:
            await commits.close()
        raise
    return runtime


async def _open_clock(settings: Settings, db: Database) -> Clock:
    wanted = settings.sesi_time_anchor
    at, monotonic_at = await db.clock()
    anchor = await config_store.anchor(db, wanted or at)
    if wanted is not None and wanted != anchor:
        raise SettingsError(f"SESI_TIME_ANCHOR: expected {anchor.isoformat()}, the anchor of this database, or unset")
    clock = Clock(anchor=anchor, scale=settings.sesi_time_scale)
    clock.set_real(at, at_monotonic=monotonic_at)
    ids.follow(clock.real_microseconds)
    return clock
