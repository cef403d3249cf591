"""Checks before every route: access, and that the body is JSON or empty."""

from typing import Any

from litestar import Request
from litestar.exceptions import HTTPException

from api.auth import Access, guard
from api.json_reading import decode
from api.route_signatures import signature_of
from core.base import field_messages
from core.base.errors import ValidationFailed

UTF_8 = frozenset({"", "utf-8", "utf8", "us-ascii"})


def is_json(content_type: str) -> bool:
    """Return whether a content type is JSON in UTF-8. A missing type counts as JSON."""
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    named = dict(part.split("=", 1) for part in parameters if "=" in part)
    known = media in ("", "application/json") or (media.startswith("application/") and media.endswith("+json"))
    return known and named.get("charset", "").strip('"') in UTF_8


async def admit(request: Request[Any, Any, Any]) -> None:
    """Check a request's access and media type, before every route.

    It is not one of the framework's guards, because these copy the route for each request.

    Raises Unauthenticated, Forbidden, ValidationFailed, or HTTPException with status 415.
    """
    handler: Any = request.scope["route_handler"]
    access: Access | None = handler.opt.get("access")
    if access is None:  # the framework's own OPTIONS route
        return
    await guard(request, access)
    if not access.foreign_body and request.method != "GET":
        await _check_media(request, handler)


async def _check_media(request: Request[Any, Any, Any], handler: Any) -> None:
    """Refuse a body that is not JSON. A route without a body accepts none or `{}`."""
    if not request.scope["state"].get("body_size"):
        if signature_of(handler).body is not None:
            raise ValidationFailed.of("", field_messages.OBJECT)
        return
    if not is_json(request.headers.get("content-type", "")):
        raise HTTPException(status_code=415)
    if signature_of(handler).body is None:
        body = decode(await request.body())
        if not isinstance(body, dict):
            raise ValidationFailed.of("", field_messages.OBJECT)
        if body:
            fields = [{"field": name, "message": field_messages.UNKNOWN} for name in sorted(body)]
            raise ValidationFailed(details={"fields": fields})
