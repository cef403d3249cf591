"""What REDIS_URL names: one server, sentinels, or a cluster (docs/settings.md)."""

import enum
import urllib.parse
from typing import Any, NamedTuple

import attrs
from redis.asyncio.connection import parse_url

DEFAULT_PORT, SENTINEL_PORT = 6379, 26379


class Layout(enum.StrEnum):
    """How the servers behind REDIS_URL are arranged."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@attrs.frozen(kw_only=True)
class RedisServers:
    """The parts of REDIS_URL.

    `seeds` are the sentinels, some nodes of the cluster, or nothing for a single server. `options` are the arguments of
    every connection to a data server, `sentinel_options` of those to sentinels.
    """

    layout: Layout
    url: str = attrs.field(repr=False)
    seeds: tuple[Address, ...] = ()
    service: str = ""
    options: dict[str, Any] = attrs.field(factory=dict, repr=False)
    sentinel_options: dict[str, Any] = attrs.field(factory=dict, repr=False)


def read(url: str) -> RedisServers:
    """Read REDIS_URL. Raises ValueError if it has none of the forms of docs/settings.md."""
    parts = urllib.parse.urlsplit(url)
    base, _, layout = parts.scheme.partition("+")
    if not layout:
        parse_url(url)
        return RedisServers(layout=Layout.SINGLE, url=url)
    if base not in ("redis", "rediss") or layout not in (Layout.SENTINEL, Layout.CLUSTER):
        raise ValueError(url)
    userinfo, at, hosts = parts.netloc.rpartition("@")
    each: list[dict[str, Any]] = [
        {**parse_url(f"{base}://{userinfo}{at}{host}?{parts.query}")} for host in hosts.split(",")
    ]
    if not all("host" in one for one in each):
        raise ValueError(url)
    port = DEFAULT_PORT if layout == Layout.CLUSTER else SENTINEL_PORT
    options, sentinel_options = _options(each[0])
    service, _, number = parts.path.removeprefix("/").partition("/")
    if bool(service) != (layout == Layout.SENTINEL):  # a cluster has no numbered databases
        raise ValueError(url)
    if number:
        options["db"] = int(number)
    return RedisServers(
        layout=Layout(layout),
        url=url,
        seeds=tuple(Address(one["host"], one.get("port", port)) for one in each),
        service=service,
        options=options,
        sentinel_options=sentinel_options,
    )


def _options(read_as: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what connections to data servers and to sentinels have of one server's URL."""
    options = {name: value for name, value in read_as.items() if name not in ("host", "port", "db")}
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    sentinel = {name: value for name, value in options.items() if name.startswith("ssl")}
    if "sentinel_password" in options:
        sentinel["password"] = options.pop("sentinel_password")
    return options, sentinel
