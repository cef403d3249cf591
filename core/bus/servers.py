"""Clients of the servers that REDIS_URL names.

Their callers set the timeouts. On Python 3.11 the client's own costs a task for each command, and that task may swallow
the cancellation of its caller.
"""

from typing import Any

import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from core.settings.redis_url import Address, Servers


def client(servers: Servers, address: Address | None, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of one data server; None: the only one. Connecting fails after `timeout_s`, a call never."""
    if address is None:
        return redis_asyncio.Redis.from_url(servers.url, **_limits(timeout_s))
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.options, **_limits(timeout_s))


def sentinel(servers: Servers, address: Address, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of a sentinel. Connecting fails after `timeout_s`, a call never."""
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.sentinel_options, **_limits(timeout_s))


def _limits(timeout_s: float) -> dict[str, Any]:
    return {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # messages of a subscription are replies like others
    }
