"""Which client address counts behind proxies: the same for the public listener and for sockets."""

import asyncio
import ipaddress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from core.base.addresses import TrustedProxies, who_has
from core.base.shares import NO_ADDRESS, PART_OF_24, PART_OF_48, network_of
from core.security.connections import ONE_ADDRESS, ConnectionCounts
from core.settings.environment import read as read_settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
TRUSTED = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")
URLS = {"DATABASE_URL": "postgresql://h/d", "REDIS_URL": "redis://h"}
HOSTS = ("127.0.0.1", "10.1.2.3", "198.51.100.1", "203.0.113.7", "2001:db8::1", "2001:db9::1", "unknown", "", "::1")
WORDS = st.sampled_from(HOSTS).flatmap(
    lambda host: st.sampled_from((host, f" {host} ", f"[{host}]:443" if ":" in host else f"{host}:443" if host else ""))
)


def seen_by_listener(peer: str, lines: list[str]) -> str:
    """Return the client address that the public listener uses."""
    scopes: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope)

    headers = [(b"x-forwarded-for", line.encode()) for line in lines]
    scope: Any = {"type": "http", "client": (peer, 1), "headers": headers}
    asyncio.run(ProxyHeadersMiddleware(app, list(TRUSTED))(scope, None, None))  # type: ignore[arg-type]
    return str(scopes[0]["client"][0])


@given(st.ip_addresses())
def test_share_of_an_address_is_that_of_every_address_in_its_network(address: Address) -> None:
    found = network_of(str(address))
    around = ipaddress.ip_network((address, 24 if address.version == 4 else 48), strict=False)
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        around = ipaddress.ip_network((mapped, 24), strict=False)
    assert (found.cidr, found.part) == (str(around), PART_OF_24 if around.version == 4 else PART_OF_48)
    assert network_of(str(around[0])) == network_of(str(around[-1])) == found
    assert len(str(found.cidr)) <= 45


@given(st.one_of(st.text(max_size=80), st.sampled_from(["/", "10.0.0.0/8", "2001:db8::/32", "::/0", "fe80::1%eth0"])))
def test_host_that_is_no_address_has_no_network(host: str) -> None:
    network = network_of(host)
    assert network.name == NO_ADDRESS if network.cidr is None else "/48" in network.name or "/24" in network.name
    assert len(who_has(host)) <= 45  # counted instead


@given(st.sampled_from(HOSTS[:6]), st.lists(st.lists(WORDS, min_size=1, max_size=3).map(",".join), max_size=2))
def test_socket_client_address_equals_that_of_the_public_listener(peer: str, lines: list[str]) -> None:
    assert TrustedProxies(TRUSTED).client_of(peer, lines) == seen_by_listener(peer, lines)


def test_client_cannot_choose_its_address() -> None:
    proxies = TrustedProxies(("10.0.0.0/8",))
    assert proxies.client_of("10.0.0.1", ["1.2.3.4, 203.0.113.7"]) == "203.0.113.7"
    assert proxies.client_of("203.0.113.7", ["1.2.3.4"]) == "203.0.113.7"
    assert TrustedProxies(()).client_of("10.0.0.1", ["1.2.3.4"]) == "10.0.0.1"


def test_ipv4_proxy_on_a_dual_stack_listener_is_trusted() -> None:
    assert TrustedProxies(("10.0.0.0/8",)).client_of("::ffff:10.0.0.1", ["203.0.113.7"]) == "203.0.113.7"


def test_connections_of_an_ipv6_network_are_counted_together() -> None:
    counts = ConnectionCounts(read_settings({**URLS, "HTTP_CONNECTIONS_PER_ADDRESS": "2"}))
    assert [counts.add(f"2001:db9::{n}") for n in (1, 2, 3)] == [None, None, ONE_ADDRESS]
    assert counts.add("2001:db9:0:1::1") is None
    counts.remove("2001:db9::3")
    counts.remove("2001:db9::2")
    assert counts.add("2001:db9::9") is None
