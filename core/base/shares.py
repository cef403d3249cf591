"""The shares of a network in a budget that all unknown callers share (docs/security.md#limits).

Carriers put very many people behind few addresses, so a share binds only while more than half of the budget is used.
"""

import ipaddress

import attrs

from core.base.addresses import networks_of, unmapped

PART_OF_24, PART_OF_48 = 10, 20  # an IPv4 /24 may use a tenth of a budget, an IPv6 /48 a twentieth
NO_ADDRESS = "no address"  # the name of the network of all hosts that are not addresses


@attrs.frozen(kw_only=True)
class Network:
    """A network with a share, and its part of each budget.

    All hosts that are not addresses share one, without a CIDR.
    """

    cidr: str | None
    part: int

    @property
    def name(self) -> str:
        """The CIDR, or NO_ADDRESS."""
        return NO_ADDRESS if self.cidr is None else self.cidr


@attrs.frozen(kw_only=True)
class BudgetUse:
    """How much of a budget unknown callers have used: all of them, and those of one network."""

    by_all: int
    by_network: int


def network_of(host: str) -> Network:
    """Return the network whose share a client uses: its IPv4 /24, or its IPv6 /48."""
    try:
        address = unmapped(host)
    except ValueError:
        return Network(cidr=None, part=PART_OF_48)
    if isinstance(address, ipaddress.IPv4Address):
        return Network(cidr=str(ipaddress.ip_network((address, 24), strict=False)), part=PART_OF_24)
    return Network(cidr=networks_of(host)[-1], part=PART_OF_48)


def is_full(used: BudgetUse, *, most: int) -> bool:
    """Return whether a budget of `most` is used up."""
    return used.by_all >= most


def has_no_share_left(used: BudgetUse, network: Network, *, most: int) -> bool:
    """Return whether a network has used its share of a budget of `most`, while more than half of that is used."""
    return 2 * used.by_all > most and network.part * used.by_network >= most
