"""Show sign-in codes in the development inbox (core/bus/inbox.py). In production nothing is shown."""

from core.bus.inbox import InboxKind
from core.providers.otp_sender import Code
from core.runtime.container import Runtime


def show_code(runtime: Runtime, code: Code) -> None:
    """Show a code before it is sent. Its text is empty if the provider makes the code."""
    if runtime.inbox is not None:
        data = {"otp_request_id": code.otp_request_id, "channel": code.channel, "ttl_seconds": code.ttl_seconds}
        runtime.inbox.add(InboxKind.CODE, to=code.phone, text=code.code or "", **data)
