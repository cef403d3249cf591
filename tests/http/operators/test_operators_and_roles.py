"""Operators and roles (docs/product.md#roles).

An operator cannot grant rights that they do not have, and the last administrator stays.
"""

from typing import Any

import pytest

from core.accounts.operators.rules import AREAS
from tests.http.operators.steps import (
    PASSWORD,
    a_role,
    an_account,
    an_operator,
    answer,
    at_once,
    audits,
    found,
    signed_in,
    unique,
)
from tests.stack import EMAIL, Stack, World, new_id, refused, within
from tests.stack import PASSWORD as ROOT_PASSWORD

pytestmark = pytest.mark.anyio

OPERATOR_FIELDS = {
    "id", "email", "display_name", "role_id", "role", "disabled", "has_password", "has_totp", "locked_until", "created_at",
}  # fmt: skip
LEAD = {"operators": "write", "mitras": "write", "config": "read"}


async def test_operator_created_and_changed_is_audited(world: World) -> None:
    root = await world.operator()
    role = await a_role(root, {"mitras": "read"})
    email = f"{unique('Mixed.Case')}@Example.Test"
    made = await an_account(root, role["id"], email=f"  {email} ", display_name="  Sari ", password=None)
    assert set(made) == OPERATOR_FIELDS | {"enrolment_code"}
    assert (made["email"], made["display_name"], made["role"]) == (email.lower(), "Sari", role["name"])
    assert (made["has_password"], made["disabled"]) == (False, False)
    await refused(signed_in(world, email), 401, "LOGIN_INVALID")
    path = f"/internal/operators/{made['id']}"
    changed = await root.call("PATCH", path, {"password": PASSWORD, "display_name": "Rina"})
    assert changed == {**made, "display_name": "Rina", "has_password": True}
    assert (await signed_in(world, email)).user["permissions"] == {"mitras": "read"}
    assert made["id"] in await found(root, "/internal/operators", limit=200)
    rows = await audits(world, made["id"])
    assert [row["action"] for row in rows] == ["operator.created", "operator.changed"]
    assert (rows[0]["before"], rows[1]["before"]["display_name"]) == (None, "Sari")
    assert (rows[1]["after"]["display_name"], rows[1]["after"]["password_changed"]) == ("Rina", True)
    assert PASSWORD not in str(rows)
    assert {row["operator_id"] for row in rows} == {root.user["id"]}


async def test_concurrent_duplicate_emails_and_role_names_are_created_once(world: World) -> None:
    root = await world.operator()
    role, other = await a_role(root, {}), await a_role(root, {})
    email, name = f"{unique('same')}@example.test", unique("same")
    wish = {"email": email, "display_name": "x", "role_id": role["id"]}
    seen = await at_once(6, lambda _: root.post("/internal/operators", wish))
    assert sorted(one[0] for one in seen) == [200] + [409] * 5
    assert {one[1] for one in seen if one[0] == 409} == {"EMAIL_TAKEN"}
    seen = await at_once(6, lambda _: root.post("/internal/roles", {"name": name, "permissions": {}}))
    assert sorted(one[0] for one in seen) == [200] + [409] * 5
    assert {one[1] for one in seen if one[0] == 409} == {"ROLE_NAME_TAKEN"}
    somebody = await an_account(root, role["id"])
    path = f"/internal/operators/{somebody['id']}"
    await refused(root.call("PATCH", path, {"email": email.upper()}), 409, "EMAIL_TAKEN")
    await refused(root.call("PATCH", f"/internal/roles/{other['id']}", {"name": name}), 409, "ROLE_NAME_TAKEN")
    assert (await root.call("PATCH", path, {"email": somebody["email"]}))["email"] == somebody["email"]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("email", {"email": "no address"}),
        ("email", {"email": "a b@example.test"}),
        ("email", {"email": "x@" + "y" * 254}),
        ("email", {"email": None}),
        ("email", {"email": "a\0@example.test"}),
        ("display_name", {"display_name": "   "}),
        ("display_name", {"display_name": "x" * 101}),
        ("role_id", {"role_id": "no id"}),
        ("role_id", {"role_id": "01933f2e-8a4c-7d3b-9f10-5a6b7c8d9e0f"}),
        ("password", {"password": "short"}),
        ("password", {"password": "y" * 73}),
        ("password", {"password": "passwordpassword"}),
        ("disabled", {"disabled": "no"}),
        ("permissions", {"permissions": {"*": "write"}}),
        ("password_hash", {"password_hash": ""}),
    ],
)
async def test_invalid_operator_field_is_named(world: World, field: str, change: dict[str, Any]) -> None:
    root = await world.operator()
    role = await a_role(root, {})
    made = await an_account(root, role["id"])
    body = {"email": f"{unique('op')}@example.test", "display_name": "x", "role_id": role["id"], **change}
    for call in (
        root.post("/internal/operators", body),
        root.call("PATCH", f"/internal/operators/{made['id']}", change),
    ):
        error = await refused(call, 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == [field]
    assert len(await audits(world, made["id"])) == 1


@pytest.mark.parametrize(
    "permissions",
    [{"nothing": "read"}, {"config": "admin"}, {"config": None}, {"config": True}, {"": "read"}, [], "all", None],
)
async def test_unknown_areas_and_levels_are_422(world: World, permissions: Any) -> None:
    root = await world.operator()
    role = await a_role(root, {"config": "read"})
    body = {"name": unique("r"), "permissions": permissions}
    error = await refused(root.post("/internal/roles", body), 422, "VALIDATION_ERROR")
    assert all(item["field"].startswith("permissions") for item in error["details"]["fields"])
    await refused(
        root.call("PATCH", f"/internal/roles/{role['id']}", {"permissions": permissions}), 422, "VALIDATION_ERROR"
    )
    (same,) = [one for one in (await root.get("/internal/roles", limit=200))["items"] if one["id"] == role["id"]]
    assert same["permissions"] == {"config": "read"}


async def test_unknown_operator_or_role_is_404(world: World) -> None:
    root = await world.operator()
    for one in (new_id(), "nonsense"):
        await refused(root.call("PATCH", f"/internal/operators/{one}", {"display_name": "x"}), 404, "NOT_FOUND")
        await refused(root.call("PATCH", f"/internal/roles/{one}", {"name": "x"}), 404, "NOT_FOUND")


# -- no operator grants rights that they do not have


async def test_operator_cannot_raise_their_own_rights(world: World) -> None:
    root, lead = await world.operator(), await an_operator(world, LEAD)
    stronger = await a_role(root, {"*": "write"})
    sideways = await a_role(root, {"pricing": "read"})
    roles, me = f"/internal/roles/{lead.role_id}", f"/internal/operators/{lead.id}"
    for area in AREAS:
        for level in ("read", "write"):
            if LEAD.get(area) in (level, "write"):
                continue
            call = lead.client.call("PATCH", roles, {"permissions": {**LEAD, area: level}})
            await refused(call, 403, "FORBIDDEN")
            call = lead.client.post("/internal/roles", {"name": unique("r"), "permissions": {area: level}})
            await refused(call, 403, "FORBIDDEN")
    for star in ("read", "write"):
        call = lead.client.post("/internal/roles", {"name": unique("r"), "permissions": {"*": star}})
        await refused(call, 403, "FORBIDDEN")
    for role in (stronger, sideways):
        await refused(lead.client.call("PATCH", me, {"role_id": role["id"]}), 403, "FORBIDDEN")
        wish = {"email": f"{unique('x')}@example.test", "display_name": "x", "role_id": role["id"]}
        await refused(lead.client.post("/internal/operators", wish), 403, "FORBIDDEN")
        await refused(lead.client.call("PATCH", f"/internal/roles/{role['id']}", {"permissions": {}}), 403, "FORBIDDEN")
    assert (await lead.client.get("/internal/auth/me"))["permissions"] == LEAD


async def test_write_on_every_area_is_not_the_wildcard(world: World) -> None:
    nearly = await an_operator(world, dict.fromkeys(AREAS, "write"))
    call = nearly.client.post("/internal/roles", {"name": unique("r"), "permissions": {"*": "write"}})
    await refused(call, 403, "FORBIDDEN")
    assert await nearly.client.post(
        "/internal/roles", {"name": unique("r"), "permissions": dict.fromkeys(AREAS, "write")}
    )


async def test_operator_cannot_take_over_an_account_with_more_rights(world: World) -> None:
    root, lead = await world.operator(), await an_operator(world, LEAD)
    strong = await an_operator(world, {"payments": "write"})
    for target in (strong.id, root.user["id"]):
        for change in (
            {"password": "taken over by me 1"},
            {"email": f"{unique('mine')}@example.test"},
            {"disabled": True},
            {"role_id": lead.role_id},
            {"display_name": "x"},
        ):
            call = lead.client.call("PATCH", f"/internal/operators/{target}", change)
            await refused(call, 403, "FORBIDDEN")
        assert "operator.changed" not in [
            row["action"] for row in await audits(world, target) if row["operator_id"] == lead.id
        ]
    assert (await strong.client.get("/internal/auth/me"))["id"] == strong.id
    assert (await signed_in(world, strong.email)).user["id"] == strong.id


async def test_operator_may_grant_rights_they_have(world: World) -> None:
    lead = await an_operator(world, LEAD)
    role = await lead.client.post("/internal/roles", {"name": unique("r"), "permissions": {"mitras": "read"}})
    made = await an_account(lead.client, role["id"])
    changed = await lead.client.call("PATCH", f"/internal/operators/{made['id']}", {"role_id": lead.role_id})
    assert changed["role_id"] == lead.role_id
    assert (await lead.client.call("PATCH", f"/internal/roles/{role['id']}", {"permissions": {}}))["permissions"] == {}


async def test_rights_lost_during_concurrent_calls_grant_nothing(world: World) -> None:
    """Send many calls while the caller's role is taken away: calls that are served later are refused."""
    root, lead = await world.operator(), await an_operator(world, LEAD)

    async def one(n: int) -> Any:
        if n == 3:
            return await root.call("PATCH", f"/internal/roles/{lead.role_id}", {"permissions": {}})
        return await lead.client.post("/internal/roles", {"name": unique("r"), "permissions": {"mitras": "write"}})

    seen = await at_once(12, one)
    assert seen[3][0] == 200
    rows = await world.stack.sql(
        """SELECT a.created_at > c.created_at AS after FROM operator_audit_log a, operator_audit_log c
           WHERE a.operator_id = $1::text::uuid AND c.object_id = $2 AND c.action = 'role.changed'""",
        lead.id,
        lead.role_id,
    )
    assert len(rows) == sum(one[0] == 200 for n, one in enumerate(seen) if n != 3)
    assert {one[0] for n, one in enumerate(seen) if n != 3} <= {200, 403}
    call = lead.client.post("/internal/roles", {"name": unique("r"), "permissions": {}})
    await refused(call, 403, "FORBIDDEN")


async def test_changed_role_takes_effect_at_once(world: World) -> None:
    root, reader = await world.operator(), await an_operator(world, {"mitras": "read"})
    path = f"/internal/roles/{reader.role_id}"
    assert (await answer(reader.client.get("/internal/mitras")))[0] == 200
    await root.call("PATCH", path, {"permissions": {"pricing": "read"}})
    assert (await answer(reader.client.get("/internal/mitras")))[0] == 403
    assert (await answer(reader.client.get("/internal/pricing/tiers")))[0] == 200
    role = await a_role(root, {"mitras": "read"})
    await root.call("PATCH", f"/internal/operators/{reader.id}", {"role_id": role["id"]})
    assert (await answer(reader.client.get("/internal/pricing/tiers")))[0] == 403
    assert (await answer(reader.client.get("/internal/mitras")))[0] == 200


async def test_disabled_operator_loses_access_and_refresh_tokens(world: World) -> None:
    root, somebody = await world.operator(), await an_operator(world, {"mitras": "read"})
    path = f"/internal/operators/{somebody.id}"
    refresh_token, somebody.client.refresh_token = somebody.client.refresh_token, None
    assert (await root.call("PATCH", path, {"disabled": True}))["disabled"] is True
    assert (await somebody.client._once("GET", "/internal/auth/me", None))[0] == 401
    body = {"refresh_token": refresh_token}
    await refused(somebody.client.post("/internal/auth/refresh", body), 401, "REFRESH_INVALID")
    await refused(signed_in(world, somebody.email), 401, "LOGIN_INVALID")
    await root.call("PATCH", path, {"disabled": False})
    assert (await somebody.client._once("GET", "/internal/auth/me", None))[0] == 401  # the old token stays invalid
    assert (await signed_in(world, somebody.email)).user["id"] == somebody.id


async def test_password_set_by_another_operator_signs_out_everywhere(world: World) -> None:
    root, somebody = await world.operator(), await an_operator(world, {})
    somebody.client.refresh_token = None
    await root.call("PATCH", f"/internal/operators/{somebody.id}", {"password": "given by the root 5"})

    async def status() -> int:
        return (await somebody.client._once("GET", "/internal/auth/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    await refused(signed_in(world, somebody.email), 401, "LOGIN_INVALID")
    assert (await signed_in(world, somebody.email, "given by the root 5")).user["id"] == somebody.id


# -- the last administrator


@pytest.fixture(scope="module")
def separate_stack() -> Any:
    """Run a separate service, because administrators are counted."""
    made = Stack()
    yield made
    made.close()


@pytest.mark.slow
async def test_last_administrator_cannot_be_removed(separate_stack: Stack) -> None:
    world = World(separate_stack)
    root = await world.operator()
    weak = await a_role(root, {"operators": "write"})
    me = f"/internal/operators/{root.user['id']}"
    (own,) = [one for one in (await root.get("/internal/roles"))["items"] if one["name"] == "administrator"]
    # An administrator who cannot sign in does not count.
    await an_account(root, own["id"], password=None)
    await an_account(root, own["id"], disabled=True)
    ways: list[tuple[str, dict[str, Any]]] = [
        (me, {"disabled": True}),
        (me, {"role_id": weak["id"]}),
        (f"/internal/roles/{own['id']}", {"permissions": {"operators": "write"}}),
        (f"/internal/roles/{own['id']}", {"permissions": {"*": "read"}}),
    ]
    for path, change in ways:
        await refused(root.call("PATCH", path, change), 409, "LAST_ADMINISTRATOR")
    assert (await root.get("/internal/auth/me"))["permissions"] == {"*": "write"}
    assert await root.call("PATCH", f"/internal/roles/{own['id']}", {"name": "administrator"})
    await world.close()


async def test_concurrent_mutual_demotion_leaves_one_administrator(separate_stack: Stack) -> None:
    world = World(separate_stack)
    root = await world.operator()
    weak = await a_role(root, {})
    (own,) = [one for one in (await root.get("/internal/roles"))["items"] if one["name"] == "administrator"]
    second = await an_account(root, own["id"])
    for change, undo in (
        ({"role_id": weak["id"]}, {"role_id": own["id"]}),
        ({"disabled": True}, {"disabled": False}),
    ):
        for _ in range(4):
            here, there = await signed_in(world, EMAIL, ROOT_PASSWORD), await signed_in(world, second["email"])
            pair = [(here, second["id"]), (there, root.user["id"])]

            async def strike(n: int, pair: Any = pair, change: Any = change) -> Any:
                client, target = pair[n]
                client.refresh_token = None
                return await client.call("PATCH", f"/internal/operators/{target}", change)

            seen = await at_once(2, strike)
            assert sorted(one[0] for one in seen)[0] == 200
            assert sorted(one[0] for one in seen)[1] in {401, 403, 409}
            winner = here if seen[0][0] == 200 else there
            loser = second["id"] if seen[0][0] == 200 else root.user["id"]
            await winner.call("PATCH", f"/internal/operators/{loser}", undo)
    await (await world.operator()).close()
    world._operator = None
    await world.close()


async def test_own_new_password_needs_the_present_one(world: World) -> None:
    me, other = await an_operator(world, {"*": "write"}), await an_operator(world, {})
    path, new = f"/internal/operators/{me.id}", "another good one 9"
    count = "SELECT failed_login_count FROM control_center_users WHERE email = $1"
    error = await refused(me.client.call("PATCH", path, {"password": new}), 422, "VALIDATION_ERROR")
    assert [field["field"] for field in error["details"]["fields"]] == ["current_password"]
    me.client.refresh_token, kept = None, me.client.refresh_token  # the client would refresh after a 401 and call again
    wrong = {"password": new, "current_password": "not the password 41"}
    await refused(me.client.call("PATCH", path, wrong), 401, "LOGIN_INVALID")
    assert (await world.stack.sql(count, me.email))[0][0] == 1
    assert (await signed_in(world, me.email)).user["id"] == me.id  # unchanged
    me.client.refresh_token = kept
    await me.client.call("PATCH", path, {"password": new, "current_password": PASSWORD})
    assert (await signed_in(world, me.email, new)).user["id"] == me.id
    root = await world.operator()
    await root.call("PATCH", f"/internal/operators/{other.id}", {"password": new})  # another's needs none
    assert (await signed_in(world, other.email, new)).user["id"] == other.id
