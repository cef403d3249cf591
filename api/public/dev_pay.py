"""The development payment page, which replaces the gateway's invoice and makes the same webhook call.

It does not exist in production or with the gateway enabled.
"""

import html
from typing import Any

import msgspec
from litestar import Request, Response, get, post

from api.auth import anyone, client_ip
from api.parameters import path_id
from core.flows import webhook_receive
from core.flows.webhook_receive import Incoming
from core.reads import payments
from core.runtime import Runtime

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Pay (development)</title><style>body{{font:16px system-ui;max-width:24rem;margin:4rem auto;padding:0 1rem}}
button{{font:inherit;padding:.6rem 1.2rem}}</style>
<h1>Rp {amount}</h1><p>{minutes} minutes, {mode}</p><p>Status: <strong>{status}</strong></p>{form}</html>"""
FORM = '<form method="post"><button>Pay</button></form>'


def _page(view: payments.DevelopmentPage) -> Response[str]:
    text = PAGE.format(
        amount=f"{view.amount:,}".replace(",", "."),
        minutes=view.duration_minutes,
        mode=html.escape(view.mode),
        status=html.escape(view.status),
        form=FORM if view.status == "pending" else "",
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy})


@get("/dev/pay/{request_id:str}", include_in_schema=False, **anyone())
async def show(request_id: str, runtime: Runtime) -> Response[str]:
    """Show the amount to pay."""
    return _page(await payments.for_development_page(runtime, path_id(request_id)))


@post("/dev/pay/{request_id:str}", status_code=200, include_in_schema=False, **anyone(foreign_body=True))
async def pay(request_id: str, request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Pay: pass the call that the gateway would make to the webhook's handler."""
    view = await payments.for_development_page(runtime, path_id(request_id))
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
        "metadata": {"app": settings.gateway_app_tag},
    }
    headers = {"content-type": "application/json", "x-callback-token": (*settings.gateway_callback_token, "")[0]}
    incoming = Incoming(body=msgspec.json.encode(call), headers=headers, source_ip=client_ip(request))
    await webhook_receive.receive(runtime, incoming)
    return _page(await payments.for_development_page(runtime, view.payment_request_id))


ROUTES = [show, pay]
