"""The four read markers of a chat, as indexes of `Feed.read_markers` (docs/protocol.md#delivered-and-read).

Each is the highest `seq` that a side's devices have received or read.
"""

CUSTOMER_DELIVERED, CUSTOMER_READ, MITRA_DELIVERED, MITRA_READ = range(4)


def status_of(marker: int) -> str:
    """Return the message status that a marker stands for: delivered or read."""
    return "read" if marker in (CUSTOMER_READ, MITRA_READ) else "delivered"


def is_customers(marker: int) -> bool:
    """Return whether the customer has received or read; otherwise the mitra has."""
    return marker <= CUSTOMER_READ
