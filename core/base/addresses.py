"""Addresses of clients, as limits count them, and those of servers, as URLs name them."""

import ipaddress
import urllib.parse
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
WRITABLE = ("read-write", "primary")  # values of target_session_attrs that ask for the server that takes writes


def who_has(host: str) -> str:
    """Return the address that stands for a client; of IPv6 the network, because a client has all of it.

    A mapped IPv4 counts as what it is: so it looks to a listener that takes both.
    """
    try:
        address = unmapped(host)
    except ValueError:
        return host[:45]
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


@lru_cache(maxsize=4096)
def networks_of(host: str) -> tuple[str, ...]:
    """Return the networks that a client's requests are counted in: an IPv4 address; of IPv6 the /64 and the /48.

    A /64 belongs to one client; providers give whole /48 blocks away, in which each /64 looks like another client.
    """
    own = who_has(host)
    if "/" not in own:
        return (own,)
    return own, str(ipaddress.ip_network(own).supernet(new_prefix=48))


def place(host: str, port: int) -> str:
    """Return `host:port` as a URL has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unmapped(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address, a mapped IPv4 as what it is: so it looks to a listener that takes both. Raises ValueError."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


class TrustedProxies:
    """The proxies whose X-Forwarded-For is believed: addresses and networks of TRUSTED_PROXIES."""

    def __init__(self, words: Iterable[str]) -> None:
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(word, strict=False) for word in words)

    def client_of(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the client's address: the right-most one of the X-Forwarded-For lines that is not a trusted proxy.

        Each proxy appends the address that it saw, so what stands further left is the client's own word.
        """
        hosts = [_without_port(word.strip()) for line in forwarded for word in line.split(",")]
        if not hosts or not self.trusts(peer):
            return peer
        client = next((host for host in reversed(hosts) if not self.trusts(host)), hosts[0])
        return client or peer

    def trusts(self, host: str) -> bool:
        """Return whether an address is a trusted proxy's; False for what is not an address."""
        try:
            address = unmapped(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def _without_port(word: str) -> str:
    """Return the address of `address`, `address:port` or `[address]:port`."""
    if word.startswith("["):
        return word[1:].partition("]")[0]
    return word.partition(":")[0] if word.count(":") == 1 else word


def database_urls(url: str) -> list[str]:
    """Split the URL of a database into one URL for each host that it names; the URL of one host stays as it is.

    Hosts are listed before the path or, as for Unix sockets, in the parameters `host` and `port`.
    Raises ValueError for several hosts with a `target_session_attrs` that asks for a server without writes.
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
