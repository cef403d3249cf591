"""The development payment page, which replaces the gateway's invoice and makes the same webhook call.

It does not exist in production or with the gateway enabled. In a frame or a window of the apps it reports the end of
the payment by `postMessage` (`/try/pay/pay.js`). `?lang=id|en` and `?theme=light|dark` set its language and colours.
"""

import html
from typing import Any

import msgspec
from litestar import Request, Response, get, post

from api.auth import anyone, client_ip
from api.parameters import path_id
from core.base import languages
from core.base.languages import Text
from core.payments import show as show_payments
from core.payments.states import PaymentStatus
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks.receive import Incoming
from core.runtime.container import Runtime

PAGE = """<!doctype html><html lang="{language}" {theme}><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<link rel="icon" href="/try/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/try/shared/base.css">
<link rel="stylesheet" href="/try/shared/parts.css"><link rel="stylesheet" href="/try/pay/pay.css">
<script type="module" src="/try/pay/pay.js"></script>
<main class="card" data-payment-request-id="{payment_request_id}" data-status="{status}">
<p class="quiet">{title}</p><h1>Rp {amount}</h1><p>{what}</p><p role="status">{word}</p>{form}</main></html>"""
FORM = '<form method="post"><button class="primary">{pay}</button></form>'
TITLE = Text(en="Payment page for development", id="Halaman pembayaran untuk pengembangan")
WHAT = Text(en="{minutes} minutes, {mode}", id="{minutes} menit, {mode}")
PAY = Text(en="Pay", id="Bayar")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}


def _page(request: Request[Any, Any, Any], view: show_payments.DevelopmentPage) -> Response[str]:
    chosen = languages.parse_locale(request.query_params.get("lang"))
    language = chosen or languages.of_errors(request.headers.get("accept-language"))
    theme = request.query_params.get("theme")
    status = PaymentStatus(view.status)
    assert status.label is not None  # each state of a payment request has one
    text = PAGE.format(
        language=language.value,
        theme=f'data-theme="{theme}"' if theme in ("light", "dark") else "",
        title=TITLE.said_in(language),
        payment_request_id=view.payment_request_id,
        amount=f"{view.amount:,}".replace(",", "."),
        what=WHAT.said_in(language).format(minutes=view.duration_minutes, mode=html.escape(view.mode)),
        status=status.value,
        word=status.label.said_in(language),
        form=FORM.format(pay=PAY.said_in(language)) if status is PaymentStatus.PENDING else "",
    )
    return Response(text, media_type="text/html", headers=HEADERS)


@get("/dev/pay/{request_id:str}", include_in_schema=False, **anyone())
async def show(request_id: str, request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Show the amount to pay."""
    return _page(request, await show_payments.for_development_page(runtime, path_id(request_id)))


@post("/dev/pay/{request_id:str}", status_code=200, include_in_schema=False, **anyone(foreign_body=True))
async def pay(request_id: str, request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Pay: pass the call that the gateway would make to the webhook's handler."""
    view = await show_payments.for_development_page(runtime, path_id(request_id))
    settings = runtime.settings
    call = {
        "id": view.gateway_invoice_id or f"dev-{view.payment_request_id}",
        "external_id": view.payment_request_id,
        "status": "PAID",
        "amount": view.amount,
        "paid_amount": view.amount,
        "currency": "IDR",
        "paid_at": runtime.now().isoformat(),
        "payment_method": "QR_CODE",
        "payment_channel": "QRIS",
        "metadata": {"app": settings.gateway_app_tag},
    }
    headers = {"content-type": "application/json", "x-callback-token": (*settings.gateway_callback_token, "")[0]}
    incoming = Incoming(body=msgspec.json.encode(call), headers=headers, source_ip=client_ip(request))
    await webhook_receive.receive(runtime, incoming)
    return _page(request, await show_payments.for_development_page(runtime, view.payment_request_id))


ROUTES = [show, pay]
