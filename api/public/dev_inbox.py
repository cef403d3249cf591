"""The development inbox at `/dev/inbox`: codes, pushes, invoices and webhook calls as they happen.

It does not exist in production.
"""

from typing import Any

import attrs
from litestar import Request, Response, get

from api.auth import anyone
from api.public import try_apps
from api.static_files import answer
from core.base.errors import Unavailable
from core.bus.inbox import InboxItem
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class InboxItems:
    """The newest items, newest first."""

    items: list[InboxItem]


@get("/dev/inbox", include_in_schema=False, **anyone())
async def inbox_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the page, which reads the items each second."""
    return answer(request, try_apps.FILES, "inbox/index.html", headers=try_apps.headers_of(request))


@get("/dev/inbox.json", include_in_schema=False, **anyone(Unavailable))
async def inbox_items(runtime: Runtime) -> InboxItems:
    """Return the newest items."""
    assert runtime.inbox is not None  # the route exists outside production only
    return InboxItems(items=await runtime.inbox.newest())


ROUTES = [inbox_page, inbox_items]
