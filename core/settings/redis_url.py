"""What REDIS_URL names: one server, sentinels, or a cluster (docs/settings.md)."""

import enum
import urllib.parse
from typing import Any

import attrs
from redis.asyncio.connection import parse_url

DEFAULT_PORT, SENTINEL_PORT = 6379, 26379


class Layout(enum.StrEnum):
    """How the servers behind REDIS_URL are arranged."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@attrs.frozen(order=True)
class Address:
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
    is_cluster = layout == Layout.CLUSTER
    userinfo, _, hosts = parts.netloc.rpartition("@")
    seeds = tuple(_address(one, DEFAULT_PORT if is_cluster else SENTINEL_PORT) for one in hosts.split(","))
    options, service = _options(base, userinfo, parts), ""
    sentinel_options = {name: value for name, value in options.items() if name.startswith("ssl")}
    password = options.pop("sentinel_password", None)
    if password is not None:
        sentinel_options["password"] = password
    if not is_cluster:
        service, _, number = parts.path.removeprefix("/").partition("/")
        if not service:
            raise ValueError(url)
        if number:
            options["db"] = int(number)
    elif parts.path not in ("", "/"):
        raise ValueError(url)
    return RedisServers(
        layout=Layout(layout), url=url, seeds=seeds, service=service, options=options, sentinel_options=sentinel_options
    )


def _options(base: str, userinfo: str, parts: urllib.parse.SplitResult) -> dict[str, Any]:
    """Return the user, the password and TLS, as in the URL of a single server with the same userinfo and query."""
    at = f"{userinfo}@" if userinfo else ""
    query = urllib.parse.parse_qs(parts.query)
    sentinel_password = query.pop("sentinel_password", [None])[-1]
    rest = urllib.parse.urlencode(query, doseq=True)
    read_as = parse_url(f"{base}://{at}host{'?' if rest else ''}{rest}")
    options: dict[str, Any] = {name: value for name, value in read_as.items() if name not in ("host", "port", "db")}
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    if sentinel_password is not None:
        options["sentinel_password"] = sentinel_password
    return options


def _address(text: str, port: int) -> Address:
    parts = urllib.parse.urlsplit(f"//{text}")
    if not parts.hostname or parts.path or parts.query:
        raise ValueError(text)
    return Address(parts.hostname, parts.port or port)
