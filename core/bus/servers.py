"""Clients of the servers that REDIS_URL names."""

from typing import Any

import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from core.base.redis_url import Address, Servers


def client(servers: Servers, address: Address | None, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of one data server, whose calls fail after `timeout_s`; None: the only one."""
    if address is None:
        return redis_asyncio.Redis.from_url(servers.url, **_limits(timeout_s))
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.options, **_limits(timeout_s))


def sentinel(servers: Servers, address: Address, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of a sentinel, whose calls fail after `timeout_s`."""
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.sentinel_options, **_limits(timeout_s))


def _limits(timeout_s: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # messages of a subscription are replies like others
    }
