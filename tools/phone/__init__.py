"""A reference app for both roles, which the demo and the tests use (docs/clients.md)."""

from tools.phone.phone import PAUSES_S, Phone, Reconnection, SignedOut

__all__ = ["PAUSES_S", "Phone", "Reconnection", "SignedOut"]
