"""One bucket a user for all processes, kept in Redis; while Redis is away, one for each process (contract 2).

How this works: the generic cell rate algorithm. A bucket is one number, the moment at which it will be full again; each
request moves it on by one emission interval, and is refused when that is further ahead than the burst allows. All
requests that gather while one question is under way are asked in the next one, so a busy process asks seldom. A limit
that is very high is taken in small advances, which last a second: the higher the limit, the cheaper.
"""

import asyncio
import math
from collections import OrderedDict

import attrs
import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.base import logs
from core.base.clock import monotonic
from core.base.errors import DomainError, Kind
from core.base.settings import Settings

DEADLINE_S = 0.25  # real; a question that takes longer is answered by this process alone
AWAY_S = 1.0  # so long nobody asks again
ADVANCE_S = 1.0
AT_ONCE = 500
KEPT = 50_000  # buckets of this process
log = logs.get("rate_limit")

# KEYS: buckets. ARGV: now (µs), real seconds a service second, then for each key: interval (µs), tolerance (µs), wanted.
# Answers for each key: how many were granted, or minus the µs to wait.
TAKE = """
local now, pace = tonumber(ARGV[1]), tonumber(ARGV[2])
local out = {}
for i, key in ipairs(KEYS) do
  local interval, tolerance, wanted = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  local full = tonumber(redis.call('GET', key) or now)
  if full < now then full = now end
  local room = math.floor((now + tolerance - full) / interval) + 1
  if room < 1 then
    out[i] = -math.max(1, math.ceil(full - tolerance - now))
  else
    local granted = math.min(room, wanted)
    full = full + granted * interval
    redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000 * pace) + 1000)
    out[i] = granted
  end
end
return out
"""


class RateLimited(DomainError):
    """Too many requests; wait."""

    kind = Kind.TOO_SOON
    code = "RATE_LIMITED"
    message = "Too many requests. Wait a moment."


@attrs.frozen(kw_only=True)
class Limit:
    """So many requests a minute of service time, and so many at once."""

    name: str
    per_minute: int
    burst: int

    @property
    def interval(self) -> float:
        """Microseconds between two requests at the steady rate."""
        return 60_000_000 / self.per_minute

    @property
    def tolerance(self) -> float:
        """How far ahead, in microseconds, a bucket may be."""
        return (self.burst - 1) * self.interval

    @property
    def advance(self) -> int:
        """How many to take at once: one, unless the limit is so high that a second's worth is many."""
        return max(1, min(self.burst // 64, self.per_minute // 60 // 16))


@attrs.define(kw_only=True)
class _Question:
    key: str
    limit: Limit
    now_us: int
    answer: asyncio.Future[int]


class RateLimit:
    """Counts requests."""

    def __init__(self, settings: Settings) -> None:
        self._client = redis_asyncio.Redis.from_url(
            settings.redis_url, socket_timeout=DEADLINE_S, socket_connect_timeout=DEADLINE_S, retry=Retry(NoBackoff(), 0)
        )  # fmt: skip
        self._script = self._client.register_script(TAKE)
        self._pace = 1 / settings.sesi_time_scale
        self._waiting: list[_Question] = []
        self._asking: asyncio.Task[None] | None = None
        self._away_until = 0.0
        self._own: OrderedDict[str, float] = OrderedDict()
        self._advances: dict[str, tuple[int, float]] = {}

    async def take(self, limit: Limit, who: str, *, now_us: int) -> None:
        """Count one request at `now_us` (microseconds of service time). Raises RateLimited with the seconds to wait."""
        key = f"sesi:rate:{limit.name}:{who}"
        left, until = self._advances.get(key, (0, 0.0))
        if left > 0 and monotonic() < until:
            self._advances[key] = (left - 1, until)
            return
        granted = await self._ask(_Question(
            key=key, limit=limit, now_us=now_us, answer=asyncio.get_running_loop().create_future()
        ))  # fmt: skip
        if granted < 0:
            raise RateLimited(retry_after_seconds=max(1, math.ceil(-granted / 1_000_000)))
        if granted > 1:
            if len(self._advances) >= KEPT:
                self._advances.clear()
            self._advances[key] = (granted - 1, monotonic() + ADVANCE_S)

    async def _ask(self, question: _Question) -> int:
        if monotonic() < self._away_until:
            return self._judge(question)
        self._waiting.append(question)
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all())
        return await question.answer

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                answers = await self._together(batch)
                for question, answer in zip(batch, answers, strict=True):
                    if not question.answer.done():
                        question.answer.set_result(answer)
        finally:
            self._asking = None

    async def _together(self, batch: list[_Question]) -> list[int]:
        args: list[float | int | str] = [max(question.now_us for question in batch), self._pace]
        for question in batch:
            args += [question.limit.interval, question.limit.tolerance, question.limit.advance]
        if monotonic() >= self._away_until:
            try:
                async with asyncio.timeout(DEADLINE_S):
                    return await self._script(keys=[question.key for question in batch], args=args)
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("limits hold for this process alone", error=type(error).__name__)
                self._away_until = monotonic() + AWAY_S
            except Exception:
                log.exception("the limits could not be asked")
                self._away_until = monotonic() + AWAY_S
        return [self._judge(question) for question in batch]

    def _judge(self, question: _Question) -> int:
        """The same rule, for this process alone."""
        limit = question.limit
        full = max(self._own.pop(question.key, 0.0), question.now_us)
        if len(self._own) >= KEPT:
            self._own.popitem(last=False)
        room = math.floor((question.now_us + limit.tolerance - full) / limit.interval) + 1
        self._own[question.key] = full if room < 1 else full + limit.interval
        return -max(1, math.ceil(full - limit.tolerance - question.now_us)) if room < 1 else 1

    async def close(self) -> None:
        """Close the connection."""
        if self._asking is not None:
            self._asking.cancel()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._client.aclose()
        except (RedisError, OSError, TimeoutError):
            return
