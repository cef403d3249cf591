"""A password that another person chose must be replaced at the first sign-in, before any other route answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.operators.second_factor import AUTH, enrol, from_an_address, login, store_tokens
from tests.http.operators.steps import PASSWORD, a_role, an_account, audits, unique
from tests.stack import Stack, World, refused
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

OWN = "a password of my own 12"
EXPIRE = {"INITIAL_PASSWORDS_EXPIRE": "true"}
CONFINED = (
    ("GET", "/internal/mitras"), ("GET", "/internal/overview"), ("GET", f"{AUTH}/sessions"), ("POST", f"{AUTH}/totp/begin"),
    ("POST", f"{AUTH}/totp/confirm"), ("POST", f"{AUTH}/step-up"), ("POST", "/internal/operators"),
)  # fmt: skip


@pytest.fixture(scope="module")
def strict(stack: Stack) -> Iterator[str]:
    """Run an api process whose new operators must replace their passwords; return its internal address."""
    port = free_port()
    ports = {"PUBLIC_PORT": str(free_port()), "INTERNAL_PORT": str(port)}
    stack.start("api", key="api-strict", **ports, **EXPIRE)
    stack.wait_ready("api", port=port)
    yield f"http://127.0.0.1:{port}"
    assert stack.stop("api-strict") == 0
    del stack.processes["api-strict"]


async def root_at(world: World, base: str) -> Device:
    """Return the administrator as a client of that process."""
    made = world.client()
    operator = await world.operator()
    made._base, made.access_token = base, operator.access_token
    return made


async def signed_in(world: World, email: str, password: str = PASSWORD) -> Device:
    """Sign a device of an operator in."""
    made = from_an_address(world)
    store_tokens(made, await login(made, email, password))
    return made


def change(device: Device, current: str, new: str) -> Any:
    """Change the caller's password."""
    return device.post(f"{AUTH}/password", {"current_password": current, "new_password": new})


async def test_initial_password_opens_only_its_replacement(world: World, strict: str) -> None:
    root = await root_at(world, strict)
    account = await an_account(root, (await a_role(root, {"*": "write"}))["id"])
    device = await signed_in(world, account["email"])
    assert device.user["password_change_due"] is True
    for method, path in CONFINED:
        await refused(device.call(method, path), 403, "PASSWORD_CHANGE_REQUIRED")
    await device.refresh()
    assert (await device.get(f"{AUTH}/me"))["password_change_due"] is True
    error = await refused(change(device, PASSWORD, PASSWORD), 422, "VALIDATION_ERROR")
    assert error["details"]["fields"][0]["field"] == "new_password"
    await refused(change(device, PASSWORD, "password1234"), 422, "VALIDATION_ERROR")
    assert (await change(device, PASSWORD, OWN))["password_change_due"] is False
    assert (await device.get("/internal/mitras", limit=1))["items"] is not None
    again = await signed_in(world, account["email"], OWN)
    assert again.user["password_change_due"] is False
    assert [row["action"] for row in await audits(world, account["id"])][-1] == "operator.password_changed"
    await device.post(f"{AUTH}/logout")


async def test_operator_with_an_initial_password_may_sign_out(world: World, strict: str) -> None:
    root = await root_at(world, strict)
    account = await an_account(root, (await a_role(root, {}))["id"])
    device = await signed_in(world, account["email"])
    assert (await device.post(f"{AUTH}/logout"))["email"] == account["email"]


async def test_password_change_is_due_only_if_another_operator_set_it(world: World, strict: str) -> None:
    root = await root_at(world, strict)
    account = await an_account(root, (await a_role(root, {"*": "write"}))["id"])
    device = await signed_in(world, account["email"])
    await change(device, PASSWORD, OWN)
    device._base = strict
    path = f"/internal/operators/{account['id']}"
    own = {"password": PASSWORD, "current_password": OWN}
    await device.call("PATCH", path, own)  # changed by the operator themselves; signs out everywhere
    device = await signed_in(world, account["email"])
    assert device.user["password_change_due"] is False
    await root.call("PATCH", path, {"display_name": "Sari the second"})
    assert (await device.get(f"{AUTH}/me"))["password_change_due"] is False
    await root.call("PATCH", path, {"password": OWN})
    device = await signed_in(world, account["email"], OWN)
    assert device.user["password_change_due"] is True
    await root.call("PATCH", path, {"display_name": "Sari"})
    assert (await device.get(f"{AUTH}/me"))["password_change_due"] is True


async def test_operator_created_by_command_replaces_the_password_before_enrolling(world: World) -> None:
    root = await world.operator()
    body = {"name": unique("strict"), "permissions": {"mitras": "read"}, "require_totp": True}
    role, email = await root.post("/internal/roles", body), f"{unique('op')}@example.test"
    made = world.stack.command(
        "operator", "create", "--email", email, "--display-name", "Sari", "--role", role["name"], "--password-stdin",
        stdin=PASSWORD, **EXPIRE,
    )  # fmt: skip
    assert "a new password at the first sign-in" in made.stdout
    code = made.stdout.strip().splitlines()[-1].rpartition(": ")[2]
    device = await signed_in(world, email)
    await refused(
        device.post(f"{AUTH}/totp/begin", {"password": PASSWORD, "code": code}), 403, "PASSWORD_CHANGE_REQUIRED"
    )
    await change(device, PASSWORD, OWN)
    await refused(device.get("/internal/mitras"), 403, "TOTP_ENROLMENT_REQUIRED")
    await enrol(device, password=OWN, code=code)
    assert (await device.get("/internal/mitras", limit=1))["items"] is not None


async def test_initial_passwords_are_kept_outside_production_by_default(world: World) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {}))["id"])
    assert (await signed_in(world, account["email"])).user["password_change_due"] is False
