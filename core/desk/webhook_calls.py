"""Reads of webhook calls, as operators see them."""

import datetime as dt
from typing import Any, Literal

import attrs

from core.base import id_ranges
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Id
from core.base.ids import parse_id
from core.base.pages import Items, Page, cut
from core.desk import disclosure, newest_first
from core.payments.gateway_calls import ProcessingResult
from core.payments.webhooks.personal import without_personal_fields
from core.runtime.container import Runtime
from core.storage.conditions import Conditions
from core.storage.records import as_dict


@attrs.frozen(kw_only=True)
class WebhookLogView:
    """A call of the gateway, with its body as text; the body is empty in a list without bodies.

    The `source` is `webhook` for a call, and `poll` for money that was found by asking the gateway. A row with the
    `processing_result` `flood` stands for `calls` calls without a valid token from one network in one minute; `bytes`
    is the size of their bodies, and `body_sha256` (hex) is that of the newest. Only the first 4 KiB of a larger body
    without a valid token are kept; these two fields then say its length and hash.
    """

    id: Id
    received_at: dt.datetime
    source_ip: str
    external_id: str | None
    gateway_invoice_id: str | None
    status: str | None
    amount: str | None
    app_tag: str | None
    raw_body: str
    http_status: int | None
    processing_result: ProcessingResult | None = attrs.field(converter=attrs.converters.optional(ProcessingResult))
    processing_error: str | None
    replay_of: Id | None
    calls: int
    bytes: int | None
    body_sha256: str | None
    source: Literal["webhook", "poll"]


@attrs.frozen(kw_only=True)
class WebhookFilter:
    """Which calls to list. `q` is the id of a call, an external id or an invoice id. Without `bodies` the bodies are
    left out."""

    q: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    processing_result: str | None = None
    bodies: bool = True


BODIES_A_PAGE = 20  # masking 64 KiB of a stranger's JSON takes 20 ms of the event loop
COLUMNS = """id,
  received_at,
  source_ip,
  external_id,
  gateway_invoice_id,
  status,
  amount,
  app_tag,
  http_status,
  processing_result,
  processing_error,
  replay_of,
  calls,
  bytes,
  body_sha256,
  source"""
ONE = f"""SELECT
  raw_body,
  {COLUMNS}
FROM webhook_logs
WHERE id = $1"""
PAGE = f"""SELECT
  {{raw_body}},
  {COLUMNS}
FROM webhook_logs
WHERE {{where}}
ORDER BY received_at DESC, id DESC
LIMIT {{limit}}"""
NO_BODY = "''::bytea AS raw_body"
# Calls with an id, external id or invoice id. The gateway may write an id in lower or upper case.
ABOUT = """(
  external_id = {text}
  OR gateway_invoice_id = {text}
  OR id = {id}::uuid
  OR external_id IN ({id}::uuid::text, upper({id}::uuid::text))
)"""


def _call(row: Any, actor: Actor) -> WebhookLogView:
    """Return a call as the operator may see it: without `customers.pii`, personal fields and errors are masked."""
    body, may_read = row["raw_body"].decode("utf-8", "replace"), disclosure.readable(actor)
    if body and not may_read:
        body = without_personal_fields(body)
    shown = disclosure.row_as(row, "processing_error", may_read=may_read)
    return WebhookLogView(**{**as_dict(shown), "raw_body": body})


async def _note(runtime: Runtime, actor: Actor, calls: list[WebhookLogView], *, listed: bool) -> None:
    """Write the audit row about reading bodies, and errors with `customers.pii`."""
    may_read = disclosure.readable(actor)
    read = {
        call.id: [name for name in ("raw_body", "processing_error")[: 1 + may_read] if getattr(call, name)]
        for call in calls
    }
    ids = [call_id for call_id, names in read.items() if names]
    fields = sorted({name for names in read.values() for name in names}, reverse=True)
    if listed:
        await disclosure.several(runtime, actor, object_type="webhook_log", ids=ids, fields=fields)
    elif ids:
        await disclosure.one(runtime, actor, object_type="webhook_log", object_id=ids[0], fields=fields)


async def _read(runtime: Runtime, actor: Actor, log_id: str) -> WebhookLogView:
    row = await runtime.db.fetchrow(ONE, log_id)
    if row is None:
        raise NotFound
    return _call(row, actor)


async def webhook_call(runtime: Runtime, actor: Actor, log_id: str) -> WebhookLogView:
    """Return one call, and write an audit row about reading its body.

    Raises NotFound for an unknown id, and Unavailable if the audit row can't be written.
    """
    call = await _read(runtime, actor, log_id)
    await _note(runtime, actor, [call], listed=False)
    return call


async def replayed_call(runtime: Runtime, actor: Actor, log_id: str) -> WebhookLogView:
    """Return the call that a replay has just stored. The audit row of the replay covers the reading.

    Raises NotFound for an unknown id.
    """
    return await _read(runtime, actor, log_id)


def _query(page: Page, which: WebhookFilter, begin: dt.datetime | None, scale: float) -> tuple[str, list[Any]]:
    """Return (SQL, arguments) of a page of calls from `begin` on; None: from the first one on.

    `scale` is that of service time.
    """
    where = Conditions()
    if which.q is not None:
        named = parse_id(which.q)
        where.plain(ABOUT.format(text=where.arg(which.q), id=where.arg(named)))
        # A call about a request is younger than the request. Another text, such as an invoice's id, has no time.
        where.add("id >= {0}", id_ranges.since_named(named))
    where.add("received_at >= {0}", begin)
    where.add("received_at < {0}", which.until)
    where.add("processing_result = {0}", which.processing_result)
    where.behind("received_at", "id", before_at=page.before_at, before_id=page.before_id)
    end = newest_first.end_of(page, which.until)
    begin_id = begin and id_ranges.since(begin, scale=scale)
    where.within("id", begin_id=begin_id, end_id=end and id_ranges.until(end, scale=scale))
    body = "raw_body" if which.bodies else NO_BODY
    return PAGE.format(raw_body=body, where=where, limit=where.arg(page.limit + 1)), where.args


async def _page(runtime: Runtime, page: Page, which: WebhookFilter) -> list[Any]:
    begins = list(newest_first.begins(page, since=which.since, until=which.until, now=runtime.now()))
    for begin in begins[:-1] if which.q is None else ():  # a search finds few calls, wherever they are
        statement, args = _query(page, which, begin, runtime.clock.scale)
        rows = await runtime.db.fetch(statement, *args)
        if len(rows) > page.limit:
            return rows
    statement, args = _query(page, which, begins[-1], runtime.clock.scale)
    return await runtime.db.fetch(statement, *args)


async def webhook_calls(runtime: Runtime, actor: Actor, page: Page, which: WebhookFilter) -> Items:
    """List the gateway's calls, newest first. One audit row names those whose bodies are on the page.

    A page with bodies has at most BODIES_A_PAGE calls. Raises Unavailable if the audit row can't be written.
    """
    if which.bodies:
        page = attrs.evolve(page, limit=min(page.limit, BODIES_A_PAGE))
    rows = await _page(runtime, page, which)
    found = cut([_call(row, actor) for row in rows], page, at="received_at")
    await _note(runtime, actor, found.items, listed=True)
    return found
