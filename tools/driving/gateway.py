"""The development gateway: calls the webhook as the real one would."""

import datetime as dt

import httpx

from core.base.addresses import host_and_port
from core.base.clock import Clock
from core.settings.settings import Settings


def notification(
    settings: Settings,
    clock: Clock,
    *,
    payment_request_id: str,
    amount: int,
    status: str,
    invoice_id: str | None,
    late: bool,
) -> dict[str, object]:
    """Return the body of a webhook call. `late` dates the payment one day from now."""
    paid_at = clock.now() + (dt.timedelta(days=1) if late else dt.timedelta())
    return {
        "id": invoice_id or f"dev-{payment_request_id}",
        "external_id": payment_request_id,
        "status": status,
        "amount": amount,
        "paid_amount": amount,
        "currency": "IDR",
        "paid_at": paid_at.isoformat(),
        "payment_method": "QR_CODE",
        "payment_channel": "QRIS",
        "metadata": {"app": settings.gateway_app_tag},
    }


def post(settings: Settings, call: dict[str, object]) -> httpx.Response:
    """Send a webhook call to the public listener, with the callback token."""
    return httpx.post(
        f"http://{host_and_port(settings.public_host, settings.public_port)}/api/shared/payment/webhooks/gateway",
        json=call,
        headers={"X-Callback-Token": (*settings.gateway_callback_token, "")[0]},
        timeout=30,
    )
