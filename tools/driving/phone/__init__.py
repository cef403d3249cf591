"""A reference app for both roles, which the demo and the tests use (docs/clients.md)."""

from tools.driving.phone.phone import Phone
from tools.driving.phone.reconnection import PAUSES_S, Reconnection, SignedOut

__all__ = ["PAUSES_S", "Phone", "Reconnection", "SignedOut"]
