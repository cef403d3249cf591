"""A reference app for both roles, which the demo and the tests use (docs/clients.md)."""

from tools.phone.phone import Phone
from tools.phone.reconnection import PAUSES_S, Reconnection, SignedOut

__all__ = ["PAUSES_S", "Phone", "Reconnection", "SignedOut"]
