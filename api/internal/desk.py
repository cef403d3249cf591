"""The operators' routes: sign-in, settings, mitras, customers, failed pairings, webhook calls, the books (contract 8)."""

from typing import Annotated, Any

import attrs
from litestar import Request, get, patch, post, put
from litestar.params import QueryParameter

from api.auth import INTERNAL, anyone, device_of, operators
from api.bodies import Body, JsonObject, choice, optional_integer, optional_text, path_id, query_time, structure, text
from api.wire import OperatorTokens, operator_tokens
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.pages import Items, read_page
from core.config.keys import KEYS
from core.flows import login_operator, login_tokens, operator_work
from core.flows.operator_work import MitraChange, PhoneTaken
from core.logins.refresh import RefreshInvalid
from core.operators.rules import AccountLocked, LoginInvalid
from core.pairing.rules import CauseTag
from core.pairing_failures.rules import AlreadyActioned, FailureSuperseded, OperatorAction
from core.reads import configuration, ledger, payments, people
from core.reads.payments import FailureFilter, WebhookFilter
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class LoginBody:
    """An operator's e-mail and password."""

    email: str = text(1, 255)
    password: str = text(1, 1024, repr=False)


@attrs.frozen(kw_only=True)
class RefreshBody:
    """A refresh token."""

    refresh_token: str = text(1, 400, repr=False)


@attrs.frozen(kw_only=True)
class ActionBody:
    """What was done for the customer."""

    operator_action: str = choice(*OperatorAction)


@attrs.frozen(kw_only=True)
class MitraBody:
    """A new mitra."""

    phone: str = text(3, 40)
    display_name: str = text(1, 400)
    is_active: bool = False


@attrs.frozen(kw_only=True)
class MitraPatch:
    """What changes of a mitra; what is absent stays."""

    phone: str | None = optional_text(3, 40)
    display_name: str | None = optional_text(1, 400)
    is_active: bool | None = None


@attrs.frozen(kw_only=True)
class ConfigValue:
    """A row's new value: a number, a flag, a word or a document, as the key asks for."""

    value: Any


@attrs.frozen(kw_only=True)
class MitraPing:
    """How silence of mitras is judged."""

    require_ping: bool
    stale_after_seconds: int
    heartbeat_cadence_seconds: int


@attrs.frozen(kw_only=True)
class MitraPingPatch:
    """What changes of it; what is absent stays. The heartbeat cadence is the least that silence may be."""

    require_ping: bool | None = None
    stale_after_seconds: int | None = optional_integer(1, 3600)


@post(
    "/internal/auth/login",
    status_code=200,
    dto=Body[LoginBody],
    return_dto=None,
    **anyone(LoginInvalid, AccountLocked, listeners=INTERNAL),
)
async def sign_in(data: LoginBody, request: Request[Any, Any, Any], runtime: Runtime) -> OperatorTokens:
    """Sign an operator in."""
    tokens, operator = await login_operator.sign_in(
        runtime, email=data.email, password=data.password, device=device_of(request)
    )
    return operator_tokens(tokens, people.operator_view(operator))


@post(
    "/internal/auth/refresh",
    status_code=200,
    dto=Body[RefreshBody],
    return_dto=None,
    **anyone(RefreshInvalid, listeners=INTERNAL),
)
async def refresh(data: RefreshBody, runtime: Runtime) -> OperatorTokens:
    """New tokens for a refresh token."""
    fresh = await login_tokens.refresh_tokens(runtime, refresh_token=data.refresh_token, operators=True)
    return operator_tokens(fresh.tokens, await people.operator_me(runtime, fresh.user_id))


@post("/internal/auth/logout", status_code=204, **operators(None))
async def log_out(runtime: Runtime, actor: Actor) -> None:
    """End this device's auth session."""
    await login_tokens.log_out(runtime, actor)


@get("/internal/auth/me", **operators(None))
async def me(runtime: Runtime, actor: Actor) -> people.OperatorView:
    """The calling operator."""
    return await people.operator_me(runtime, actor.user_id)


@get("/internal/config", **operators("config"))
async def config_rows(runtime: Runtime) -> Items[configuration.ConfigRow]:
    """Every configuration row."""
    return Items(items=await configuration.rows(runtime))


@get("/internal/config/mitra-ping", **operators("config"))
async def mitra_ping(runtime: Runtime) -> MitraPing:
    """How silence of mitras is judged."""
    return MitraPing(
        require_ping=runtime.config.flag("require_mitra_ping"),
        stale_after_seconds=runtime.config.number("mitra_stale_after_seconds"),
        heartbeat_cadence_seconds=runtime.settings.mitra_heartbeat_cadence_seconds,
    )


@patch(
    "/internal/config/mitra-ping",
    dto=JsonObject,
    return_dto=None,
    body=MitraPingPatch,
    **operators("config", "write"),
)
async def set_mitra_ping(data: dict[str, Any], runtime: Runtime, actor: Actor) -> MitraPing:
    """Change how silence is judged; absent stays, null is refused."""
    names = {"require_ping": "require_mitra_ping", "stale_after_seconds": "mitra_stale_after_seconds"}
    cadence = runtime.settings.mitra_heartbeat_cadence_seconds
    for name, value in data.items():
        if name not in names:
            raise ValidationFailed.of(name, "is unknown")
        if name == "require_ping" and not isinstance(value, bool):
            raise ValidationFailed.of(name, "must be true or false")
        if name == "stale_after_seconds" and not (type(value) is int and cadence <= value <= 3600):
            message = f"must be a whole number from {cadence} (the heartbeat cadence in seconds) to 3600"
            raise ValidationFailed(
                f"stale_after_seconds {message}", details={"fields": [{"field": name, "message": message}]}
            )
    await operator_work.set_config(runtime, actor, {names[name]: value for name, value in data.items()})
    return await mitra_ping.fn(runtime)


@get("/internal/config/{key:str}", **operators("config"))
async def config_row(key: str, runtime: Runtime) -> configuration.ConfigRow:
    """One configuration row."""
    return await configuration.row(runtime, key)


@put("/internal/config/{key:str}", dto=JsonObject, return_dto=None, body=ConfigValue, **operators("config", "write"))
async def put_config(key: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> configuration.ConfigRow:
    """Set a configuration row."""
    return await _set_config(runtime, actor, key, data)


@patch("/internal/config/{key:str}", dto=JsonObject, return_dto=None, body=ConfigValue, **operators("config", "write"))
async def patch_config(key: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> configuration.ConfigRow:
    """Set a configuration row."""
    return await _set_config(runtime, actor, key, data)


async def _set_config(runtime: Runtime, actor: Actor, key: str, data: dict[str, Any]) -> configuration.ConfigRow:
    if key not in KEYS:
        raise NotFound
    if set(data) != {"value"}:
        raise ValidationFailed.of("value", "is required, and nothing else")
    await operator_work.set_config(runtime, actor, {key: data["value"]})
    return await configuration.row(runtime, key)


@get("/internal/mitras", **operators("mitras"))
async def mitras(
    runtime: Runtime,
    q: str | None = None,
    is_active: bool | None = None,
    is_online: bool | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[people.MitraRow]:
    """List mitras."""
    page = read_page(cursor, limit)
    return await people.mitras_for_operator(runtime, page, q=q, is_active=is_active, is_online=is_online)


@post(
    "/internal/mitras",
    status_code=201,
    dto=Body[MitraBody],
    return_dto=None,
    **operators("mitras", "write", PhoneTaken),
)
async def add_mitra(data: MitraBody, runtime: Runtime, actor: Actor) -> people.MitraRow:
    """Add a mitra."""
    mitra_id = await operator_work.add_mitra(
        runtime, actor, phone=data.phone, display_name=data.display_name, is_active=data.is_active
    )
    return await people.mitra_for_operator(runtime, mitra_id)


@get("/internal/mitras/{mitra_id:str}", **operators("mitras"))
async def mitra(mitra_id: str, runtime: Runtime) -> people.MitraRow:
    """One mitra."""
    return await people.mitra_for_operator(runtime, path_id(mitra_id))


@patch(
    "/internal/mitras/{mitra_id:str}",
    dto=JsonObject,
    return_dto=None,
    body=MitraPatch,
    **operators("mitras", "write", PhoneTaken),
)
async def change_mitra(mitra_id: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> people.MitraRow:
    """Change a mitra; a deactivated one goes offline."""
    found = path_id(mitra_id)
    if any(value is None for value in data.values()):
        raise ValidationFailed.of(next(name for name, value in data.items() if value is None), "can't be null")
    body = structure(data, MitraPatch)
    change = MitraChange(phone=body.phone, display_name=body.display_name, is_active=body.is_active)
    await operator_work.change_mitra(runtime, actor, mitra_id=found, change=change)
    return await people.mitra_for_operator(runtime, found)


@post("/internal/mitras/{mitra_id:str}/force-offline", status_code=200, **operators("mitras", "write"))
async def force_offline(mitra_id: str, runtime: Runtime, actor: Actor) -> people.MitraRow:
    """Take a mitra offline."""
    found = path_id(mitra_id)
    await operator_work.force_offline(runtime, actor, mitra_id=found)
    return await people.mitra_for_operator(runtime, found)


@get("/internal/customers/{customer_id:str}", **operators("customers"))
async def customer(customer_id: str, runtime: Runtime, actor: Actor) -> people.CustomerView:
    """One customer; phone and e-mail are masked without `customers.pii`."""
    return await people.customer_for_operator(runtime, actor, path_id(customer_id))


@get("/internal/failed-pairings", **operators("failed_pairings"))
async def failed_pairings(
    runtime: Runtime,
    cause_tag: str | None = None,
    operator_action: str | None = None,
    superseded: bool = False,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[payments.FailedPairing]:
    """List failed pairings, newest first."""
    if cause_tag is not None and cause_tag not in set(CauseTag):
        raise ValidationFailed.of("cause_tag", f"is one of {', '.join(CauseTag)}")
    if operator_action is not None and operator_action not in {"none", *OperatorAction}:
        raise ValidationFailed.of("operator_action", f"is one of none, {', '.join(OperatorAction)}")
    which = FailureFilter(cause_tag=cause_tag, operator_action=operator_action, superseded=superseded)
    return await payments.failed_pairings(runtime, read_page(cursor, limit), which)


@patch(
    "/internal/failed-pairings/{failure_id:str}",
    dto=Body[ActionBody],
    return_dto=None,
    **operators("failed_pairings", "write", AlreadyActioned, FailureSuperseded),
)
async def act_on_failure(failure_id: str, data: ActionBody, runtime: Runtime, actor: Actor) -> payments.FailedPairing:
    """Say what was done for the customer, once."""
    found = path_id(failure_id)
    action = OperatorAction(data.operator_action)
    await operator_work.act_on_failure(runtime, actor, failure_id=found, action=action)
    return await payments.failed_pairing(runtime, found)


@get("/internal/webhook-logs", **operators("webhooks"))
async def webhook_logs(
    runtime: Runtime,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    processing_result: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[payments.WebhookCall]:
    """List the gateway's calls, newest first."""
    which = WebhookFilter(
        q=q, since=query_time("from", since), until=query_time("to", to), processing_result=processing_result
    )
    return await payments.webhook_calls(runtime, read_page(cursor, limit), which)


@get("/internal/ledger/audit", **operators("payments"))
async def audit(runtime: Runtime) -> ledger.Audit:
    """Check the books."""
    return await ledger.audit(runtime)


ROUTES = [
    sign_in, refresh, log_out, me, config_rows, mitra_ping, set_mitra_ping, config_row, put_config, patch_config,
    mitras, add_mitra, mitra, change_mitra, force_offline, customer, failed_pairings, act_on_failure, webhook_logs, audit,
]  # fmt: skip
