"""One bucket a user for all processes, kept in Redis; while Redis is away, one for each process (contract 2).

How this works: the generic cell rate algorithm. A bucket is the moment at which it will be full again; each request moves
it on by one emission interval, and is refused when that is further ahead than the burst allows. Beside it stands the
latest moment at which it granted something: questions of several processes come in any order and from clocks that differ,
and if a bucket's time went back with them, a burst would be a request short. Only a clock that was set back takes it along.
All requests that gather while one question is under way are asked in the next one, those of one bucket together, so a busy
process asks seldom. A limit that is very high is taken in small advances, which last a second: the higher, the cheaper.
"""

import asyncio
import math
from collections import OrderedDict

import attrs
import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.base import logs, metrics
from core.base.clock import monotonic
from core.base.errors import DomainError, Kind
from core.base.settings import Settings

DEADLINE_S = 0.25  # real; a question that takes longer is answered by this process alone
AWAY_S = 1.0  # so long nobody asks again
ADVANCE_S = 1.0
SET_BACK_S = 5.0  # real; no order of questions and no difference of clocks that are kept comes near
AT_ONCE = 500
KEPT = 50_000  # buckets of this process
log = logs.get("rate_limit")

# KEYS: buckets. ARGV: now (µs), real seconds a service second, how far back (µs) a clock is set, then for each key:
# interval (µs), tolerance (µs), wanted.
# Answers for each key: how many were granted, or minus the µs to wait.
TAKE = """
local now, pace, set_back = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local out = {}
for i, key in ipairs(KEYS) do
  local interval, tolerance, wanted = tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  local full, latest = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  full, latest = tonumber(full or 0), tonumber(latest or 0)
  if latest > now + set_back then full, latest = full - latest + now, now end
  local at = math.max(now, latest)
  full = math.max(at, full)
  local room = math.floor((at + tolerance - full) / interval) + 1
  if room < 1 then
    out[i] = -math.max(1, math.ceil(full - tolerance - now))
  else
    local granted = math.min(room, wanted)
    full = full + granted * interval
    local kept_ms = math.ceil((full - at) / 1000 * pace) + 1000
    redis.call('SET', key, string.format('%.0f %.0f', full, at), 'PX', kept_ms)
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
    def interval(self) -> int:
        """Microseconds between two requests at the steady rate: whole ones, so that no rounding eats into a burst."""
        return 60_000_000 // self.per_minute

    @property
    def tolerance(self) -> int:
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
    answer: asyncio.Future[int]  # 1: granted; negative: minus the µs to wait

    def reply(self, answer: int) -> None:
        """Answer, if somebody still waits."""
        if not self.answer.done():
            self.answer.set_result(answer)


class RateLimit:
    """Counts requests."""

    def __init__(self, settings: Settings) -> None:
        self._client = redis_asyncio.Redis.from_url(
            settings.redis_url, socket_timeout=DEADLINE_S, socket_connect_timeout=DEADLINE_S, retry=Retry(NoBackoff(), 0)
        )  # fmt: skip
        self._script = self._client.register_script(TAKE)
        self._pace = 1 / settings.sesi_time_scale
        self._set_back_us = int(SET_BACK_S * settings.sesi_time_scale * 1_000_000)
        self._waiting: list[_Question] = []
        self._asking: asyncio.Task[None] | None = None
        self._away_until = 0.0
        self._own: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._advances: dict[str, tuple[int, float]] = {}

    async def take(self, limit: Limit, who: str, *, now_us: int) -> None:
        """Count one request at `now_us` (microseconds of service time). Raises RateLimited with the seconds to wait."""
        key = f"sesi:rate:{limit.name}:{who}"
        left, until = self._advances.get(key, (0, 0.0))
        if left > 0 and monotonic() < until:
            self._advances[key] = (left - 1, until)
            return
        answer = await self._ask(_Question(
            key=key, limit=limit, now_us=now_us, answer=asyncio.get_running_loop().create_future()
        ))  # fmt: skip
        if answer < 0:
            metrics.LIMITED.labels(limit.name).inc()
            raise RateLimited(retry_after_seconds=max(1, math.ceil(-answer / 1_000_000)))

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
                buckets: dict[str, list[_Question]] = {}
                for question in batch:
                    buckets.setdefault(question.key, []).append(question)
                answers = await self._together(buckets, now_us=max(question.now_us for question in batch))
                if answers is None:
                    for question in batch:
                        question.reply(self._judge(question))
                else:
                    for (key, questions), answer in zip(buckets.items(), answers, strict=True):
                        self._share(key, questions, answer)
        finally:
            self._asking = None

    async def _together(self, buckets: dict[str, list[_Question]], *, now_us: int) -> list[int] | None:
        """Ask Redis what each bucket grants; None while it is away."""
        args: list[float | int | str] = [now_us, self._pace, self._set_back_us]
        for questions in buckets.values():
            limit = questions[0].limit
            args += [limit.interval, limit.tolerance, len(questions) + limit.advance - 1]
        if monotonic() >= self._away_until:
            try:
                async with asyncio.timeout(DEADLINE_S):
                    return await self._script(keys=list(buckets), args=args)
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("limits hold for this process alone", error=type(error).__name__)
                self._away_until = monotonic() + AWAY_S
            except Exception:
                log.exception("the limits could not be asked")
                self._away_until = monotonic() + AWAY_S
        return None

    def _share(self, key: str, questions: list[_Question], answer: int) -> None:
        """Hand out what a bucket granted: first come, first served. What nobody waits for is an advance."""
        if answer < 0:
            for question in questions:
                question.reply(answer)
            return
        for question in questions[:answer]:
            question.reply(1)
        self._waiting += questions[answer:]  # the bucket is empty now: asked again, it says for how long
        if answer > len(questions):
            now = monotonic()
            left, until = self._advances.pop(key, (0, 0.0))
            if len(self._advances) >= KEPT:
                self._advances.clear()
            kept = left if now < until else 0
            self._advances[key] = (kept + answer - len(questions), now + ADVANCE_S)

    def _judge(self, question: _Question) -> int:
        """The same rule, for this process alone."""
        limit = question.limit
        full, latest = self._own.pop(question.key, (0, 0))
        if latest > question.now_us + self._set_back_us:
            full, latest = full - latest + question.now_us, question.now_us
        at = max(question.now_us, latest)
        full = max(at, full)
        if len(self._own) >= KEPT:
            self._own.popitem(last=False)
        room = math.floor((at + limit.tolerance - full) / limit.interval) + 1
        if room < 1:
            self._own[question.key] = (full, latest)
            return -max(1, math.ceil(full - limit.tolerance - question.now_us))
        self._own[question.key] = (full + limit.interval, at)
        return 1

    async def close(self) -> None:
        """Close the connection."""
        if self._asking is not None:
            self._asking.cancel()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._client.aclose()
        except (RedisError, OSError, TimeoutError):
            return
