"""What domains do because of a change of a domain below them: in its transaction, or after the commit of its signal.

If the process dies before a flow that follows a commit has run, the sweeps find the same work in the database.
"""

import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol

from core.accounts.customers import store as customers
from core.accounts.logins import send_code
from core.deliveries import events
from core.erasures import store as erasures
from core.events.changes import Change, Joined, MitraSignedOut, Renaming, SignInMethodChanged
from core.events.signals import BlastCutShort, CodeAsked, InvoiceVoided, MitrasFreed, PaymentConfirmed, Signal
from core.pairing import advance as pairing_advance
from core.pairing import presence
from core.pairing import start as pairing_start
from core.pairing.events import AccountUpdated
from core.payments import erasing as payment_erasing
from core.payments import money
from core.payments import void as invoice_void
from core.runtime.container import Reaction, Runtime, connect
from core.sessions import renames
from core.sessions.extensions import ask as extension_ask
from core.settings.settings import Settings
from core.storage.transaction import Tx
from core.telemetry import traces


class Begin(Protocol):
    """A flow that takes a paid request further."""

    def __call__(self, runtime: Runtime, *, payment_request_id: str) -> Coroutine[Any, Any, None]: ...


async def _in_slot(runtime: Runtime, name: str, begin: Begin, signal: PaymentConfirmed) -> None:
    """Run the flow when a slot is free, so that many paid requests at once leave connections for other work.

    `name` is the flow's name in traces.
    """
    ids = {"sesi.payment_request_id": signal.payment_request_id}
    async with runtime.reaction_slots:
        with traces.span(name, parent=signal.traceparent, attributes=ids):
            await begin(runtime, payment_request_id=signal.payment_request_id)


async def _go_on(runtime: Runtime, signal: BlastCutShort) -> None:
    async with runtime.reaction_slots:
        await pairing_advance.go_on(runtime, session_id=signal.session_id)


def react(runtime: Runtime, signal: Signal) -> Coroutine[Any, Any, None] | None:
    """Return the work that follows a signal; None for a signal without any."""
    if isinstance(signal, PaymentConfirmed) and not signal.is_extension:
        return _in_slot(runtime, "pairing start", pairing_start.start, signal)
    if isinstance(signal, PaymentConfirmed):
        return _in_slot(runtime, "extension ask", extension_ask.ask, signal)
    if isinstance(signal, InvoiceVoided) and runtime.gateway is not None:
        return invoice_void.void(runtime, gateway_invoice_id=signal.gateway_invoice_id)
    if isinstance(signal, CodeAsked):
        return send_code.send_asked(runtime, otp_request_id=signal.otp_request_id)
    if isinstance(signal, BlastCutShort):
        return _go_on(runtime, signal)
    if isinstance(signal, MitrasFreed):
        return pairing_advance.invite_available(runtime, mitra_ids=signal.mitra_ids)
    return None


@contextlib.asynccontextmanager
async def in_transaction(tx: Tx, change: Change) -> AsyncIterator[None]:
    """Take part in a change: chats show new names, a mitra without any device goes offline, devices learn of links, and
    a blocked account has no pending request."""
    match change:
        case Renaming():
            async with renames.watched(tx, change.party_ids, change.side):
                yield
        case MitraSignedOut():
            yield
            await presence.leave_if_signed_out(tx, change.mitra_id)
        case Joined():
            yield
            await money.abandon_if_blocked(tx, change.account_id)
        case SignInMethodChanged():
            yield
            await _follow_link(tx, change)


async def _follow_link(tx: Tx, change: SignInMethodChanged) -> None:
    """Tell the customer's devices, and keep the hash of a phone or identity with which the discount was used up.

    Who signs in with it later is a new customer, and gets no second discount (docs/privacy.md#coming-back).
    """
    event = AccountUpdated(method=change.method, linked=change.linked)
    await events.announce(tx, event, [change.customer_id])
    if change.given_up is not None:
        account = await customers.ids_of(tx, change.customer_id)
        if await payment_erasing.has_used_first_session(tx, account):
            await erasures.keep_hash(tx, change.given_up)


async def open_runtime(
    settings: Settings, *, pool_size: int = 16, commit_pool_size: int = 0, react: Reaction | None = None
) -> Runtime:
    """Connect to all backends, set the clock and read the configuration (see `connect`)."""
    return await connect(
        settings, pool_size=pool_size, commit_pool_size=commit_pool_size, port=in_transaction, react=react
    )
