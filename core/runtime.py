"""What every flow receives: database, bus, clock, configuration, ports; and what happens after a commit.

Signals go out after the commit and may be lost. So each process also looks at the database once a second for what it
must not miss for longer: changed configuration, revoked logins, joined accounts.
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
from core.base.clock import SLEW_S, Clock, monotonic, real_sleep
from core.base.errors import DomainError, Unavailable
from core.base.keys import Keys
from core.base.process import wait_for_second_signal
from core.base.settings import Settings, SettingsError
from core.base.together import Together
from core.bus.bus import SIGNALS, Bus, frames_of
from core.bus.rate_limit import Charges, RateLimit
from core.config import store as config_store
from core.config.cache import Config
from core.config.keys import effective
from core.customers import store as customers
from core.customers.accounts import Accounts
from core.events import notices as wire
from core.events import signals
from core.events.notices import Envelope
from core.events.signals import Signal
from core.logins.access import AccessTokens
from core.logins.passwords import PasswordHasher
from core.logins.revoked import RevokedLogins
from core.outages.rules import ATTEMPT_S
from core.outside.gateway import Gateway, make_gateway
from core.outside.identity_keys import IdentityProvider, make_identity_providers
from core.outside.otp_sender import OtpSender, make_otp_sender
from core.outside.push_sender import PushSender, make_push_sender
from core.outside.webhook_sink import WebhookSink
from core.storage.database import AWAY, Database, Tx
from core.webhooks.flood_counts import FloodCounts

LOOK_EVERY_S = 0.8  # a revoked token and an old setting live at most a second (contract 1, reliability I9)
CLOCK_EVERY_S = 60.0
ERRANDS, VOIDS = 8, 4  # to the gateway, side by side
UNPROVEN_CALLS = 2  # connections that storing webhook calls without a valid token may use
CODE_SENDS = 16  # to the code provider, side by side, that no answer waits for
PAID_KEPT = 50_000
READY_S = 1.0  # how long the answer to a probe holds
CLOCK_MARGIN_S = 60.0  # by which clocks may differ when tokens expire
OVERLAP_S = 10.0  # a revocation may be committed so long after it was stamped
# What changed since: the version of the configuration, the logins revoked and the accounts joined in the last while.
# The statement's own time: beside clock_timestamp(), which differs from row to row, no index finds the end of the range.
NEWS = f"""SELECT {config_store.VERSION} AS config_version,
  ARRAY(SELECT id::text FROM auth_sessions WHERE revoked_real_at > statement_timestamp() - make_interval(secs => $1)) AS revoked,
  ARRAY(SELECT account_belongs_to::text || ' ' || id::text FROM customers
    WHERE joined_real_at > statement_timestamp() - make_interval(secs => $1) AND account_belongs_to IS NOT NULL) AS joined"""
# Held by a migration while it runs; shared by those who read whole tables, whose locks it would wait for.
MIGRATION_LOCK = 5_351_001
MIGRATIONS = pathlib.Path(__file__).parents[1] / "piccolo_migrations"

log = logs.get("runtime")
Reaction = Callable[["Runtime", Signal], Coroutine[Any, Any, None] | None]


@attrs.define(kw_only=True)
class Runtime:
    """One process's connections and knowledge."""

    settings: Settings
    clock: Clock
    db: Database
    commits: Database  # for messages and their marks; apart in the realtime process, so that commits wait behind nothing else
    leases: Database  # one connection, for the process's lease: a busy pool must not look like an outage
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
    turns: asyncio.Semaphore  # of what follows a commit with work in the database
    errands: asyncio.Semaphore  # questions to the gateway that no customer waits for
    voids: asyncio.Semaphore  # of invoices: apart, because they must not hold up the questions
    unproven_calls: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(UNPROVEN_CALLS))
    flood_counts: FloodCounts = attrs.field(init=False)
    code_sends: asyncio.Semaphore  # of mitras' codes
    accounts: Accounts = attrs.field(factory=Accounts)
    callers_ids: Together[tuple[str, ...]] = attrs.field(init=False)
    togethers: dict[str, Together[Any]] = attrs.field(factory=dict)  # reads that are shared, by name
    node: str = attrs.field(factory=ids.new_id)
    revoked: RevokedLogins = attrs.field(init=False)
    # Customers who paid since their access token was made, which may still call them newcomers.
    paid: set[str] = attrs.field(factory=set)
    # Requests of this process that wait for one Idempotency-Key.
    lines: "weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]" = attrs.field(
        factory=weakref.WeakValueDictionary
    )
    _readiness: tuple[bool, bool, str | None] = (False, False, None)
    _ready_until: float = 0.0
    _looking: asyncio.Lock = attrs.field(factory=asyncio.Lock)
    # When the process last refused a client or lost a heartbeat because it was overloaded, on the monotonic clock.
    overloaded_at: float = -math.inf
    draining: bool = False  # stopping: no longer ready, still serving
    brought_up: dict[str, int] = attrs.field(factory=dict)  # floods of messages on their way to their sessions' marks
    # Set by core.reactions: committed signal -> flow that follows in this process.
    react: Reaction | None = None
    # Set by the realtime process: its own sockets get an envelope without the way over the bus.
    local: Callable[[Envelope], None] | None = None
    hear: list[Callable[[Signal], Awaitable[None] | None]] = attrs.field(factory=list)
    missed: list[Callable[[], None]] = attrs.field(factory=list)
    _tasks: set[asyncio.Task[Any]] = attrs.field(factory=set)
    _followers: set[asyncio.Task[Any]] = attrs.field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.flood_counts = FloodCounts(self.db)
        self.revoked = RevokedLogins(keep_s=self.token_life_s)
        self.callers_ids = Together(functools.partial(customers.ids_of_all, self.db), nothing=())

    @property
    def token_life_s(self) -> float:
        """Real seconds after which an access token has expired, whenever it was made before."""
        return self.settings.access_token_seconds / self.settings.sesi_time_scale + CLOCK_MARGIN_S

    # -- time and transactions

    def now(self) -> dt.datetime:
        """Return the service time."""
        return self.clock.now()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Open a write transaction; after its commit, tell everybody and start what follows.

        Raises Unavailable when the database is away, too busy or holds a lock for too long.
        """
        with away_is_unavailable():
            async with self.db.transaction(self.now) as tx:
                yield tx
        self.tell(Envelope(notices=tx.notices, passing=tx.passing))
        for fact in tx.signals:
            self.announce(fact)

    async def charge(self, charges: Charges) -> None:
        """Count one request in each of these buckets, now. Raises RateLimited."""
        await self.rate_limit.take_all(charges, now_us=int(self.now().timestamp() * 1_000_000))

    def note_overload(self) -> None:
        """Note that a client was refused or a heartbeat was lost just now, because this process is overloaded."""
        self.overloaded_at = monotonic()

    # -- telling

    def tell(self, envelope: Envelope) -> None:
        """Hand committed news to users' sockets, in this process and in all others."""
        if not (envelope.notices or envelope.messages or envelope.passing):
            return
        if self.local is not None:
            self.local(envelope)
        self.bus.publish(frames_of(self.node), wire.encode(envelope))

    def announce(self, signal: Signal) -> None:
        """Tell all processes a committed fact, and start the flow that follows from it here."""
        self._take_to_heart(signal)
        self.bus.publish(SIGNALS, signals.encode(signal))
        if self.react is not None:
            follow = self.react(self, signal)
            if follow is not None:
                self.follow(follow)

    def _take_to_heart(self, signal: Signal) -> None:
        """What this process itself must know, whoever told it."""
        if isinstance(signal, signals.LoginsRevoked):
            self.revoked.add(signal.auth_session_ids, now=monotonic())
        if isinstance(signal, signals.AccountJoined):
            self.accounts.forget(signal.customer_id)
        if isinstance(signal, signals.PaymentConfirmed) and signal.customer_id is not None:
            if len(self.paid) >= PAID_KEPT:
                self.paid.clear()
            self.paid.add(signal.customer_id)

    def follow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that goes on when its caller is gone; a process that stops waits shortly for it."""
        task = asyncio.create_task(self._quietly(work))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)
        return task

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what follows a commit. If it fails or dies here, the sweeps find the same work in the database."""
        try:
            await work
        except (DomainError, *AWAY) as error:
            log.warning("a reaction was put off", error=type(error).__name__)
        except Exception:
            log.exception("a reaction failed")

    # -- life

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the process stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A background task never ends by itself: a process without one of its tasks must not look alive."""
        self._tasks.discard(task)
        if not task.cancelled():
            log.critical("a background task ended; the process stops", exc_info=task.exception())
            os.kill(os.getpid(), signal.SIGTERM)

    def start(self, *, look: bool = True) -> None:
        """Start sending and hearing signals, keeping the clock, and (`look`) reading what changed."""
        self.spawn(self.bus.run_writer())
        self.spawn(self.bus.listen([SIGNALS], self._heard, self._resubscribed))
        self.spawn(self._keep_clock())
        if look:
            self.spawn(self._keep_looking())

    async def _heard(self, _channel: str, data: bytes) -> None:
        signal = signals.decode(data)
        if signal is None:
            return
        if isinstance(signal, signals.ConfigChanged):
            await self.refresh_config()
        await self._pass_on(signal)

    async def _pass_on(self, signal: Signal) -> None:
        self._take_to_heart(signal)
        for hear in self.hear:
            result = hear(signal)
            if result is not None:
                await result

    def _resubscribed(self) -> None:
        for callback in self.missed:
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
            except AWAY:
                continue
            except Exception:
                log.exception("the clock could not be set")

    async def set_clock(self, db: Database | None = None) -> None:
        """Set this process's clock to the database's, over `db` or else the common pool."""
        at, monotonic_at = await (db or self.db).clock()
        behind = self.clock.set_real(at, at_monotonic=monotonic_at)
        metrics.CLOCK_OFFSET.set(behind)
        if abs(behind) > SLEW_S:
            metrics.CLOCK_STEPS.inc()
            log.error("the database's clock was more than a second away", seconds=round(behind, 3))

    async def _keep_looking(self) -> None:
        looked = monotonic()
        while True:
            await real_sleep(LOOK_EVERY_S)
            started = monotonic()
            try:
                await self.look(back_s=started - looked + OVERLAP_S)
                looked = started
            except AWAY:
                continue
            except Exception:
                log.exception("looking for news failed")

    async def look(self, *, back_s: float = 10.0) -> None:
        """Read what changed in the last `back_s` real seconds: configuration, revoked logins, joined accounts.

        A promotion of the server is noticed here too: `Database.on_new_epoch` says it.
        """
        await self.db.is_writable()
        row = await self.db.fetchrow(NEWS, back_s)
        fresh = [sid for sid in row["revoked"] if sid not in self.revoked]
        if fresh:
            await self._pass_on(signals.LoginsRevoked(auth_session_ids=fresh))
        for pair in row["joined"]:  # told again and again for a while: a read may have been under way
            customer_id, joined_id = pair.split()
            await self._pass_on(signals.AccountJoined(customer_id=customer_id, joined_id=joined_id))
        await self.follow_config(row["config_version"])

    async def follow_config(self, version: str | None) -> None:
        """Read all configuration rows anew when they are of another version than what is known here."""
        if version != self.config.version:
            await self.refresh_config()

    async def refresh_config(self) -> None:
        """Read all configuration rows anew. Of two at once the elder may end last: the next look sees it by the version."""
        values, self.config.version = await config_store.read_all(self.db)
        self.config.values = effective(values, cadence_seconds=self.settings.mitra_heartbeat_cadence_seconds)

    async def ready(self) -> tuple[bool, bool, str | None]:
        """Return (ready, degraded, why not).

        Ready: not stopping, the database answers, takes writes and is migrated. Degraded: the bus does not answer. The
        database is asked once a second at most, however often strangers probe.
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
        """Stop being ready and keep serving for DRAIN_SECONDS, so that load balancers send new clients elsewhere first.

        `stop` is the event of the process's signals: a second signal ends the wait. Returns whether one came.
        """
        self.draining = True
        log.info("draining", seconds=self.settings.drain_seconds)
        return await wait_for_second_signal(stop, self.settings.drain_seconds)

    async def close(self) -> None:
        """Finish what follows from commits, send the last signals, close all connections."""
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
def away_is_unavailable() -> Any:
    """Turn every way in which the database can be away into Unavailable (503, reliability I11)."""
    try:
        yield
    except AWAY as error:
        log.warning("the database did not answer", error=type(error).__name__)
        raise Unavailable from error


@functools.cache
def migration_ids() -> frozenset[str]:
    """Return the ids of all migrations that this version brings."""
    found = set()
    for path in MIGRATIONS.glob("sesi_*.py"):
        for line in path.read_text().splitlines():
            if line.startswith("ID = "):
                found.add(line.split('"')[1])
    return frozenset(found)


async def open_runtime(settings: Settings, *, pool_size: int = 16, commit_pool_size: int = 0) -> Runtime:
    """Connect to everything; the clock is set and the configuration read.

    Messages are committed on `commit_pool_size` connections of their own, or with 0 on those of `pool_size`.
    Raises SettingsError when SESI_TIME_ANCHOR is not the database's, Unavailable when the database is away.
    """
    with away_is_unavailable():
        db = await Database.connect(settings.database_url, size=pool_size)
    commits = db
    try:
        if commit_pool_size:
            with away_is_unavailable():
                commits = await Database.connect(settings.database_url, size=commit_pool_size)
        with away_is_unavailable():
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
            turns=asyncio.Semaphore(max(1, pool_size * 2 // 3)),
            errands=asyncio.Semaphore(ERRANDS),
            voids=asyncio.Semaphore(VOIDS),
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
