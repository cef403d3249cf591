"""Addresses of clients, as limits count them."""

import ipaddress


def who_has(host: str) -> str:
    """Return the address that stands for a client; of IPv6 the network, because a client has all of it.

    A mapped IPv4 counts as what it is: so it looks to a listener that takes both.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:45]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def place(host: str, port: int) -> str:
    """Return `host:port` as a URL has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
