"""Token buckets that all processes share in Redis; while Redis is away, each process keeps its own.

The algorithm is GCRA, the generic cell rate algorithm. A bucket stores its theoretical arrival time: the moment at
which it will be full again. Each request moves it on by one emission interval, and is refused if that is further ahead
than the burst allows. A bucket also stores the latest time at which it granted a request. Processes' clocks differ
slightly and requests arrive out of order, so an older timestamp doesn't move a bucket back: that would cost the next
burst a request. Only a timestamp more than SET_BACK_S behind does, because then a clock was set back.

A request may be charged to several buckets, such as those of its user and its address. Redis checks them together:
either all have room and all are charged, or none is. Requests that arrive during a call to Redis share the next call,
grouped by their buckets, so a busy process makes few calls. For a very high limit a process takes several requests in
advance; an advance lasts for ADVANCE_S. The limits are listed in docs/security.md#limits.
"""

import asyncio
import math
from collections import OrderedDict

import attrs
import redis.asyncio as redis_asyncio
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from core.base.clock import monotonic
from core.base.errors import DomainError, Kind, Repeat
from core.base.languages import Text
from core.bus.buckets import Charge, Charges, Limit
from core.bus.bus import Bus
from core.settings.settings import Settings
from core.telemetry import logs, metrics

DEADLINE_S = 0.25  # real seconds of a call to Redis; after them this process decides alone
AWAY_S = 1.0  # real seconds without calls to Redis after a failed one
ADVANCE_S = 1.0  # real seconds
SET_BACK_S = 5.0  # real seconds; reordered requests and differences of synchronised clocks are far smaller
AT_ONCE = 500  # questions per call to Redis
KEPT = 50_000  # buckets, and advances, in this process's memory
log = logs.get("rate_limit")

# KEYS: the buckets of the first question, then those of the next ones. ARGV: now (µs), real seconds per service second,
# how far behind (µs) a timestamp means that a clock was set back; then for each question its number of buckets and of
# requests, and for each of its buckets the interval and the tolerance (µs). Returns two numbers for each question: how
# many requests were granted, or minus the µs to wait; and the number of the refusing bucket, or 0.
TAKE = """
local now, pace, set_back = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function keep(key, full, at)
  local kept_ms = math.ceil((full - at) / 1000 * pace) + 1000
  redis.call('SET', key, string.format('%.0f %.0f', full, at), 'PX', kept_ms)
end
local out, k, a = {}, 1, 4
while k <= #KEYS do
  local size, granted = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local buckets, wait, refused = {}, 0, 0
  a = a + 2
  for i = 1, size do
    local key, interval, tolerance = KEYS[k], tonumber(ARGV[a]), tonumber(ARGV[a + 1])
    k, a = k + 1, a + 2
    local full, latest = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
    full, latest = tonumber(full or 0), tonumber(latest or 0)
    if latest > now + set_back then
      full, latest = full - latest + now, now
      keep(key, math.max(now, full), now)
    end
    local at = math.max(now, latest)
    full = math.max(at, full)
    local room = math.floor((at + tolerance - full) / interval) + 1
    if room < 1 then
      local its_wait = math.max(1, math.ceil(full - tolerance - now))
      if its_wait > wait then wait, refused = its_wait, i end
    end
    granted = math.min(granted, room)
    buckets[i] = {key, full, at, interval}
  end
  if refused > 0 then
    out[#out + 1], out[#out + 2] = -wait, refused
  else
    for _, bucket in ipairs(buckets) do
      keep(bucket[1], bucket[2] + granted * bucket[4], bucket[3])
    end
    out[#out + 1], out[#out + 2] = granted, 0
  end
end
return out
"""


class RateLimited(DomainError):
    """The caller or the caller's address has sent too many requests."""

    kind = Kind.TOO_SOON
    code = "RATE_LIMITED"
    message = Text(en="Too many requests. Wait a moment.", id="Terlalu banyak permintaan. Mohon tunggu sebentar.")
    repeat = Repeat.WAIT
    advice = "Wait, and send fewer requests. Don't show an error for a background poll."


Answer = tuple[int, int]  # (requests granted, or minus the µs to wait; number of the refusing bucket, or 0)
GRANTED: Answer = (1, 0)


@attrs.define(kw_only=True)
class _Question:
    charges: Charges
    now_us: int
    answer: asyncio.Future[Answer]

    def reply(self, answer: Answer) -> None:
        """Resolve the future, unless the caller has left."""
        if not self.answer.done():
            self.answer.set_result(answer)


def _advance(charges: Charges) -> int:
    return min(charge.limit.advance for charge in charges)


class RateLimit:
    """Counts requests in the shared buckets."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._bus = bus
        self._client: redis_asyncio.Redis | None = None
        self._script: AsyncScript | None = None
        self._pace = 1 / settings.sesi_time_scale
        self._set_back_us = int(SET_BACK_S * settings.sesi_time_scale * 1_000_000)
        self._waiting: list[_Question] = []
        self._asking: asyncio.Task[None] | None = None
        self._away_until = 0.0
        self._own: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._advances: dict[Charges, tuple[int, float]] = {}

    async def take(self, limit: Limit, who: str, *, now_us: int) -> None:
        """Count one request at `now_us` (microseconds of service time). Raises RateLimited with the seconds to wait."""
        await self.take_all((Charge(limit, who),), now_us=now_us)

    async def take_all(self, charges: Charges, otherwise: Charges = (), *, now_us: int) -> None:
        """Count one request in each of these buckets, or in none of them if one refuses; then in each of `otherwise`.

        Raises RateLimited with the longest of the waits.
        """
        answer, refused = await self._take(charges, now_us=now_us)
        if answer < 0 and not (otherwise and (await self._take(otherwise, now_us=now_us))[0] > 0):
            metrics.LIMITED.labels(charges[refused - 1].limit.name).inc()
            raise RateLimited(retry_after_seconds=max(1, math.ceil(-answer / 1_000_000)))

    async def _take(self, charges: Charges, *, now_us: int) -> Answer:
        left, until = self._advances.get(charges, (0, 0.0))
        if left > 0 and monotonic() < until:
            self._advances[charges] = (left - 1, until)
            return GRANTED
        return await self._ask(
            _Question(charges=charges, now_us=now_us, answer=asyncio.get_running_loop().create_future())
        )

    async def _ask(self, question: _Question) -> Answer:
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
                alike: dict[Charges, list[_Question]] = {}
                for question in batch:
                    alike.setdefault(question.charges, []).append(question)
                answers = await self._together(alike, now_us=max(question.now_us for question in batch))
                if answers is None:
                    for question in batch:
                        question.reply(self._judge(question))
                else:
                    for (charges, questions), answer in zip(alike.items(), answers, strict=True):
                        self._share(charges, questions, answer)
        finally:
            self._asking = None

    async def _together(self, alike: dict[Charges, list[_Question]], *, now_us: int) -> list[Answer] | None:
        """Return what Redis grants to each group of buckets, in order; None while Redis is away."""
        keys: list[str] = []
        args: list[float | int | str] = [now_us, self._pace, self._set_back_us]
        for charges, questions in alike.items():
            args += [len(charges), len(questions) + _advance(charges) - 1]
            for charge in charges:
                keys.append(charge.key)
                args += [charge.limit.interval, charge.limit.tolerance]
        if monotonic() >= self._away_until:
            try:
                async with asyncio.timeout(DEADLINE_S):
                    flat = await self._script_on(self._bus.client_of(keys[0]))(keys=keys, args=args)
                return list(zip(flat[::2], flat[1::2], strict=True))
            except (RedisError, OSError, TimeoutError) as error:
                log.warning("Redis does not answer; rate limits apply to this process only", error=type(error).__name__)
                self._away_until = monotonic() + AWAY_S
                self._bus.look_soon()
            except Exception:
                log.exception("checking rate limits failed")
                self._away_until = monotonic() + AWAY_S
        return None

    def _script_on(self, client: redis_asyncio.Redis) -> AsyncScript:
        """Return the script for the server that has the buckets now."""
        if self._script is None or client is not self._client:
            self._client, self._script = client, client.register_script(TAKE)
        return self._script

    def _share(self, charges: Charges, questions: list[_Question], answer: Answer) -> None:
        """Give the granted requests to the callers in order of arrival; keep the rest as an advance."""
        granted, _ = answer
        if granted < 0:
            for question in questions:
                question.reply(answer)
            return
        for question in questions[:granted]:
            question.reply(GRANTED)
        self._waiting += questions[granted:]  # a bucket is empty now; the next call returns how long to wait
        if granted > len(questions):
            now = monotonic()
            left, until = self._advances.pop(charges, (0, 0.0))
            if len(self._advances) >= KEPT:
                self._advances.clear()
            kept = left if now < until else 0
            self._advances[charges] = (kept + granted - len(questions), now + ADVANCE_S)

    def _judge(self, question: _Question) -> Answer:
        """Apply the same rule to this process's own buckets."""
        now_us, charged, waits = question.now_us, [], []
        for number, charge in enumerate(question.charges, 1):
            limit = charge.limit
            full, latest = self._own.pop(charge.key, (0, 0))
            if latest > now_us + self._set_back_us:
                full, latest = full - latest + now_us, now_us
            at = max(now_us, latest)
            full = max(at, full)
            if math.floor((at + limit.tolerance - full) / limit.interval) + 1 < 1:
                waits.append((max(1, math.ceil(full - limit.tolerance - now_us)), number))
            charged.append((charge.key, (full, latest), (full + limit.interval, at)))
        for key, before, after in charged:
            if len(self._own) >= KEPT:
                self._own.popitem(last=False)
            self._own[key] = before if waits else after
        if waits:
            wait, refused = max(waits)
            return -wait, refused
        return GRANTED

    async def close(self) -> None:
        """Cancel the call in progress."""
        if self._asking is not None:
            self._asking.cancel()
