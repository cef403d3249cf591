"""Find connections that would cross a network unencrypted or without authentication, by their URLs alone.

Only loopback and Unix sockets need no encryption: other machines can't read them. A host name other than `localhost`
counts as remote, because it may resolve to another address later.
"""

import ipaddress
import urllib.parse
from collections.abc import Mapping

ENCRYPTED_SSLMODES = frozenset({"require", "verify-ca", "verify-full"})


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def http_in_plaintext(url: str) -> bool:
    """Return whether requests to a URL cross a network unencrypted."""
    return url.startswith("http://") and not is_loopback(urllib.parse.urlsplit(url).hostname or "")


def redis_without_password(url: str) -> bool:
    """Return whether a `redis://` URL leads to another machine without a password.

    Every host of a list of sentinels or nodes is checked.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme.partition("+")[0] != "redis":
        return False
    query = urllib.parse.parse_qs(parts.query)
    if parts.password or query.get("password", [""])[0]:
        return False
    hosts = parts.netloc.rpartition("@")[2] or query.get("host", ["localhost"])[0]
    return not all(is_loopback(_host(one) or "localhost") for one in hosts.split(","))


def database_in_plaintext(url: str) -> bool:
    """Return whether a connection to PostgreSQL may cross a network unencrypted.

    The sslmodes `allow` and `prefer` fall back to plain text, so they count as plain text. Every host of the list is
    checked. A URL without a host counts as remote: PGHOST or a service file could name any.
    """
    parts = urllib.parse.urlsplit(url)
    query = {name: values[-1] for name, values in urllib.parse.parse_qs(parts.query).items()}
    if query.get("sslmode", "").replace("_", "-") in ENCRYPTED_SSLMODES:
        return False
    hosts = _database_hosts(parts.netloc, query)
    return not hosts or not all(host.startswith("/") or is_loopback(host) for host in hosts)


def _database_hosts(netloc: str, query: Mapping[str, str]) -> list[str]:
    """Return the hosts as asyncpg reads them: those before the path, else those of the parameter `host`."""
    before_path = netloc.partition("@")[2] if "@" in netloc else netloc
    listed = before_path or query.get("host", "")
    return [_host(urllib.parse.unquote(one)) for one in listed.split(",")] if listed else []


def _host(place: str) -> str:
    """Return a host without its port; an IPv6 address with a port is in brackets."""
    if place.startswith("/"):
        return place
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]
