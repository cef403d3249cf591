"""Client addresses as rate limits count them, and server addresses as URLs write them."""

import ipaddress
import urllib.parse
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAX_REMEMBERED = 64  # characters: a client chooses what it forwards
WRITABLE = ("read-write", "primary")  # values of target_session_attrs that select the writable server


def who_has(host: str) -> str:
    """Return the key by which a client is counted: its IPv4 address, or its IPv6 /64, which belongs to one client.

    An IPv4-mapped IPv6 address counts as IPv4. A host that is not an address is returned as it is, cut to 45
    characters.
    """
    return _remembered_key(host) if len(host) <= MAX_REMEMBERED else _key_of(host)


def _key_of(host: str) -> str:
    try:
        address = unmapped(host)
    except ValueError:
        return host[:45]
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


_remembered_key = lru_cache(maxsize=4096)(_key_of)


@lru_cache(maxsize=4096)
def networks_of(host: str) -> tuple[str, ...]:
    """Return the networks that a client's requests are counted in: its IPv4 address, or its IPv6 /64 and /48.

    A /64 belongs to one client, but providers hand out whole /48 blocks, in which each /64 looks like another client.
    """
    own = who_has(host)
    try:
        network = ipaddress.ip_network(own)
        return (own,) if network.version == 4 else (own, str(network.supernet(new_prefix=48)))
    except ValueError:  # not an address, or a network that a proxy forwarded
        return (own,)


def host_and_port(host: str, port: int) -> str:
    """Return `host:port` as a URL writes it: an IPv6 host is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unmapped(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address. Raises ValueError if `host` is not one.

    An IPv4-mapped IPv6 address is returned as IPv4, because dual-stack listeners report IPv4 clients that way.
    """
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def plain_of(host: str) -> str:
    """Return a client's address, an IPv4-mapped one as IPv4; a host that is not an address as it is."""
    try:
        return str(unmapped(host))
    except ValueError:
        return host


class TrustedProxies:
    """The proxies whose X-Forwarded-For header is trusted: the addresses and networks in TRUSTED_PROXIES."""

    def __init__(self, words: Iterable[str]) -> None:
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(word, strict=False) for word in words)

    def client_of(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the client's address: the right-most one in the X-Forwarded-For lines that is not a trusted proxy.

        Each proxy appends the address that it saw, so anything further left is the client's own claim. Without such a
        line, or if `peer` is not a trusted proxy, the client is `peer`.
        """
        hosts = [without_port(word.strip()) for line in forwarded for word in line.split(",")]
        if not hosts or not self.trusts(peer):
            return peer
        client = next((host for host in reversed(hosts) if not self.trusts(host)), hosts[0])
        return client or peer

    def trusts(self, host: str) -> bool:
        """Return whether an address belongs to a trusted proxy; False if `host` is not an address."""
        try:
            address = unmapped(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def without_port(word: str) -> str:
    """Return the address in `address`, `address:port` or `[address]:port`."""
    if word.startswith("["):
        return word[1:].partition("]")[0]
    return word.partition(":")[0] if word.count(":") == 1 else word


def database_urls(url: str) -> list[str]:
    """Split a database URL into one URL for each host that it names; a URL with one host is returned unchanged.

    Hosts are listed before the path or, as for Unix sockets, in the parameters `host` and `port`. Raises ValueError for
    several hosts if `target_session_attrs` does not ask for the writable one, or if the number of ports does not fit.
    """
    parts = urllib.parse.urlsplit(url)
    user, at, places = parts.netloc.rpartition("@")
    parameters = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    found = dict(parameters)
    hosts = (places or found.get("host", "")).split(",")
    if len(hosts) < 2:
        return [url]
    if found.get("target_session_attrs", WRITABLE[0]) not in WRITABLE:
        raise ValueError(url)
    rest = [(name, value) for name, value in parameters if name not in ("host", "port", "target_session_attrs")]
    if places:
        one_each = [(user + at + host, rest) for host in hosts]
    else:
        ports = found.get("port", "5432").split(",")
        if len(ports) == 1:
            ports *= len(hosts)
        both = zip(hosts, ports, strict=True)
        one_each = [(user + at, [("host", host), ("port", port), *rest]) for host, port in both]
    return [
        f"{parts.scheme}://{netloc}{parts.path}?{urllib.parse.urlencode(query, safe='/')}" for netloc, query in one_each
    ]
