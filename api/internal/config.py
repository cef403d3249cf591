"""Routes for configuration rows, and for the heartbeat rules of mitras."""

from typing import Any

import attrs
from litestar import Request, get, patch, put

from api.auth import operators
from api.parameters import query_id, query_time
from api.request_bodies import JsonObject, optional_number, optional_text, structure
from core.accounts.logins import callers
from core.accounts.operators.rules import require
from core.accounts.operators.totp import TotpRequired
from core.base import field_messages, languages
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.base.pages import Items
from core.config.keys import KEYS
from core.desk import configuration, operator_work
from core.payments.pricing.rules import StaleWrite
from core.runtime.container import Runtime

# The handler decides by the row: sensitive ones are in the area `security`, and need a fresh code.
WRITING = operators("config", "write", TotpRequired, StaleWrite, or_area="security")


def _language(request: Request[Any, Any, Any]) -> languages.Language:
    return languages.of_errors(request.headers.get("Accept-Language"))


@attrs.frozen(kw_only=True)
class ConfigValue:
    """The new value of a configuration row. Its type depends on the key: number, boolean, string or object.

    With the `updated_at` that you read, the change is refused if another operator was faster. `simulation_id` names the
    simulation of this value whose forecast is stored with the change in the audit log.
    """

    value: Any
    updated_at: str | None = optional_text(1, 40, metadata={"schema": {"format": "date-time"}})
    simulation_id: str | None = optional_text(1, 40, metadata={"schema": {"format": "uuid"}})


@attrs.frozen(kw_only=True)
class MitraPing:
    """When a mitra without heartbeats counts as offline: if `require_ping` is on, after `stale_after_seconds`."""

    require_ping: bool
    stale_after_seconds: float
    heartbeat_cadence_seconds: int


@attrs.frozen(kw_only=True)
class MitraPingPatch:
    """Changes of the heartbeat rules; absent fields stay unchanged. `stale_after_seconds` is at least the heartbeat
    cadence."""

    require_ping: bool | None = None
    stale_after_seconds: float | None = optional_number(1, 3600)


@get("/internal/config", **operators("config", or_area="security"))
async def config_rows(
    request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> Items[configuration.ConfigurationRow]:
    """List all configuration rows of the areas that you may read, by group.

    Their words are in the language of `Accept-Language`.
    """
    return Items(items=await configuration.rows(runtime, actor, _language(request)))


@get("/internal/config/mitra-ping", **operators("config"))
async def mitra_ping(runtime: Runtime) -> MitraPing:
    """Return the heartbeat rules of mitras."""
    return MitraPing(
        require_ping=runtime.config.flag("require_mitra_ping"),
        stale_after_seconds=runtime.config.values["mitra_stale_after_seconds"],
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
    """Change the heartbeat rules of mitras.

    Absent fields stay unchanged; null is refused.
    """
    names = {"require_ping": "require_mitra_ping", "stale_after_seconds": "mitra_stale_after_seconds"}
    cadence = runtime.settings.mitra_heartbeat_cadence_seconds
    for name, value in data.items():
        if name not in names:
            raise ValidationFailed.of(name, field_messages.UNKNOWN)
        if name == "require_ping" and not isinstance(value, bool):
            raise ValidationFailed.of(name, field_messages.FLAG)
        if name == "stale_after_seconds" and not (type(value) in (int, float) and cadence <= value <= 3600):
            rule = Text(
                en=f"must be a number from {cadence} (the heartbeat cadence in seconds) to 3600",
                id=f"harus berupa bilangan dari {cadence} (jeda heartbeat dalam detik) sampai 3600",
            )
            raise ValidationFailed(
                Text(en=f"{name} {rule.en}", id=f"{name} {rule.id}"),
                details={"fields": [{"field": name, "message": rule}]},
            )
    await operator_work.set_config(runtime, actor, {names[name]: value for name, value in data.items()})
    return await mitra_ping.fn(runtime)


@get("/internal/config/{key:str}", **operators("config", or_area="security"))
async def config_row(
    key: str, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> configuration.ConfigurationRow:
    """Return a configuration row.

    A sensitive one needs `security`.
    """
    return await configuration.row(runtime, actor, key, _language(request))


@put("/internal/config/{key:str}", dto=JsonObject, return_dto=None, body=ConfigValue, **WRITING)
async def put_config(
    key: str, data: dict[str, Any], request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> configuration.ConfigurationRow:
    """Set the value of a configuration row.

    A sensitive one needs `security` and a fresh code.
    """
    await _set_config(runtime, actor, key, data)
    return await configuration.row(runtime, actor, key, _language(request))


@patch("/internal/config/{key:str}", dto=JsonObject, return_dto=None, body=ConfigValue, **WRITING)
async def patch_config(
    key: str, data: dict[str, Any], request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> configuration.ConfigurationRow:
    """Set the value of a configuration row.

    Same as PUT.
    """
    return await put_config.fn(key, data, request, runtime, actor)


async def _set_config(runtime: Runtime, actor: Actor, key: str, data: dict[str, Any]) -> None:
    if key not in KEYS:
        raise NotFound
    require(actor.permissions, KEYS[key].area, "write")
    if KEYS[key].sensitive:
        await callers.require_step_up(runtime, actor)
    body = structure(data, ConfigValue)
    seen = query_time("updated_at", body.updated_at)
    simulation_id = query_id("simulation_id", body.simulation_id)
    await operator_work.set_config(runtime, actor, {key: body.value}, seen=seen, simulation_id=simulation_id)


ROUTES = [config_rows, mitra_ping, set_mitra_ping, config_row, put_config, patch_config]
