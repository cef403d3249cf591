"""In production, operators who move money or change the service need a second factor (docs/product.md#second-factor)."""

from collections.abc import Iterator

import pytest

from core.accounts.operators.rules import AREAS
from tests.http.operators.second_factor import AUTH, enrol, from_an_address, login, store_tokens
from tests.http.operators.steps import PASSWORD, a_role, an_account, answer, unique
from tests.stack import Stack, World, refused
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

GUARDED = {"config", "security", "operators", "failed_pairings", "payments"}
RIGHTS = [{area: level} for area in (*AREAS, "*") for level in ("read", "write")] + [
    {},
    {"*": "read", "payments": "write"},
]
OWN = "a password of my own 12"
PRODUCTION = {
    "ENVIRONMENT": "production", "PASSWORD_ROUNDS": "10", "GATEWAY_ENABLED": "false",
    "REFUNDS_ENABLED": "false", "PUSH_SENDER": "log",
}  # fmt: skip


@pytest.fixture(scope="module")
def production(stack: Stack) -> Iterator[str]:
    """Run an api process in production on the same database; return its internal address."""
    port = free_port()
    stack.start("api", key="production", PUBLIC_PORT=str(free_port()), INTERNAL_PORT=str(port), **PRODUCTION)
    stack.wait_ready("api", port=port, key="production")
    yield f"http://127.0.0.1:{port}"
    assert stack.stop("production") == 0
    del stack.processes["production"]


async def signed_in(world: World, base: str, email: str, password: str = PASSWORD) -> Device:
    """Sign a device in; it goes on at the process with this address."""
    device = from_an_address(world)
    store_tokens(device, await login(device, email, password))
    device._base = base
    return device


async def test_in_production_rights_that_move_money_or_change_the_service_need_a_second_factor(
    world: World, production: str
) -> None:
    root = await world.operator()
    here = root._base
    assert here is not None
    for permissions in RIGHTS:
        role = await a_role(root, permissions)
        device = await signed_in(world, production, (await an_account(root, role["id"]))["email"])
        granted = (
            set(AREAS)
            if permissions.get("*") == "write"
            else {a for a, level in permissions.items() if level == "write"}
        )
        required = bool(granted & GUARDED)
        assert (await device.get(f"{AUTH}/me"))["totp_required"] is required, permissions
        refusal = (await answer(device.get("/internal/mitras", limit=1)))[1]
        assert (refusal == "TOTP_ENROLMENT_REQUIRED") is required, permissions
        device._base = here  # outside production nothing changes
        assert (await device.get(f"{AUTH}/me"))["totp_required"] is role["totp_required"] is False
        assert (await answer(device.get("/internal/mitras", limit=1)))[1] != "TOTP_ENROLMENT_REQUIRED"


@pytest.mark.slow
async def test_in_production_the_first_operator_enrols_with_the_code_that_the_command_prints(
    world: World, production: str
) -> None:
    email = f"{unique('op')}@example.test"
    made = world.stack.command(
        "operator", "create", "--email", email, "--display-name", "Sari", "--role", "administrator", "--password-stdin",
        stdin=PASSWORD, **PRODUCTION,
    )  # fmt: skip
    code = made.stdout.strip().splitlines()[-1].rpartition(": ")[2]
    device = await signed_in(world, production, email)
    await device.post(f"{AUTH}/password", {"current_password": PASSWORD, "new_password": OWN})
    await refused(device.get("/internal/mitras"), 403, "TOTP_ENROLMENT_REQUIRED")
    await enrol(device, password=OWN, code=code)
    listed = await device.get("/internal/roles", limit=200)
    (role,) = [one for one in listed["items"] if one["name"] == "administrator"]
    assert (role["require_totp"], role["totp_required"]) == (False, True)


async def test_in_production_a_factor_is_reset_with_a_new_code_and_can_not_be_removed(
    world: World, production: str
) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {"payments": "write"}))["id"])
    reset = ("operator", "reset-totp", "--email", account["email"])
    code = world.stack.command(*reset, **PRODUCTION).stdout.strip().splitlines()[-1].rpartition(": ")[2]
    device = await signed_in(world, production, account["email"])
    await refused(device.post(f"{AUTH}/totp/begin", {"password": PASSWORD}), 422, "VALIDATION_ERROR")
    _, recovery_codes = await enrol(device, code=code)
    removal = {"password": PASSWORD, "code": recovery_codes[0]}
    await refused(device.call("DELETE", f"{AUTH}/totp", removal), 409, "TOTP_REQUIRED_BY_ROLE")
