"""Show in the development inbox what the service sends and receives (core/bus/inbox.py). In production nothing is shown."""

from core.bus.inbox import InboxKind
from core.payments.store import PaymentRequest
from core.providers.otp_sender import Code
from core.pushes.rules import is_silent
from core.pushes.store import Push
from core.runtime import Runtime
from core.steps.webhook_calls import Answer
from core.webhooks.store import Received


def show_code(runtime: Runtime, code: Code) -> None:
    """Show a code before it is sent. Its text is empty if the provider makes the code."""
    if runtime.inbox is not None:
        data = {"otp_request_id": code.otp_request_id, "channel": code.channel, "ttl_seconds": code.ttl_seconds}
        runtime.inbox.add(InboxKind.CODE, to=code.phone, text=code.code or "", **data)


def show_push(runtime: Runtime, push: Push, *, outcome: str) -> None:
    """Show an attempt to send a push, with the provider's answer."""
    if runtime.inbox is not None:
        text = "" if is_silent(push.content) else f"{push.content['title']}: {push.content['body']}"
        data = {**push.content, "attempt": push.attempts, "outcome": outcome}
        runtime.inbox.add(InboxKind.PUSH, to=push.push_token, text=text, **data)


def show_invoice(runtime: Runtime, request: PaymentRequest, *, invoice_id: str | None, url: str | None) -> None:
    """Show the invoice of a payment request, or its development payment page. The amount is in rupiah."""
    if runtime.inbox is not None:
        data = {
            "payment_request_id": request.id,
            "amount": request.amount,
            "duration_minutes": request.duration_minutes,
            "mode": request.mode,
            "is_extension": request.is_extension,
            "gateway_invoice_id": invoice_id,
            "url": url,
        }
        text = f"Rp {request.amount:,}".replace(",", ".")
        runtime.inbox.add(InboxKind.INVOICE, to=request.customer_id, text=text, **data)


def show_webhook_call(runtime: Runtime, call: Received, answer: Answer) -> None:
    """Show a webhook call with its result."""
    if runtime.inbox is not None:
        data = {
            "http_status": answer.http_status,
            "gateway_invoice_id": call.gateway_invoice_id,
            "status": call.status,
            "amount": call.amount,
            "token_valid": call.token_valid,
            "source_ip": call.source_ip,
        }
        runtime.inbox.add(InboxKind.WEBHOOK, to=call.external_id or "", text=str(answer.processing_result), **data)
