"""`sesi customer`, `sesi mitra` and `sesi erasures`: the same flows for operators, and the audit rows that they leave."""

import json
import pathlib

import pytest

from tests.http.privacy.steps import completed, finish, phone_customer, say
from tests.http.sign_in.people import by_phone, device, new_number
from tests.stack import EMAIL, World, new_id, refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def entries(world: World, object_id: str) -> list[tuple[str, str]]:
    """Return (action, operator) of the audit rows about a user."""
    operator = await world.operator()
    items = (await operator.get("/internal/audit-log", object_id=object_id))["items"]
    return [(one["action"], one["operator"]["display_name"]) for one in items]


async def test_command_exports_a_customer_and_names_who_ran_it(world: World) -> None:
    customer = await phone_customer(world, name="Melati")
    for more, named in (([], "command line"), (["--operator", EMAIL], "Root")):
        done = world.stack.command("customer", "export", customer.user["id"], *more)
        assert json.loads(done.stdout)["profiles"][0]["display_name"] == "Melati"
        assert (await entries(world, customer.user["id"]))[0] == ("customer.exported", named)
    for wrong in (["customer", "export", new_id()], ["customer", "erase", "x"], ["mitra", "erase", new_id()]):
        assert world.stack.command(*wrong, check=False).returncode == 1
    done = world.stack.command("customer", "erase", customer.user["id"], "--operator", "x@example.test", check=False)
    assert "no operator has the e-mail address" in done.stderr


async def test_command_line_is_found_in_the_audit_log(world: World) -> None:
    customer = await phone_customer(world)
    world.stack.command("customer", "export", customer.user["id"])
    operator = await world.operator()
    (newest, *_) = (await operator.get("/internal/audit-log", action="customer.exported"))["items"]
    found = await operator.get("/internal/audit-log", operator_id=newest["operator"]["id"])
    assert {one["operator"]["display_name"] for one in found["items"]} == {"command line"}


async def test_command_erases_a_customer(world: World) -> None:
    number = new_number()
    customer, mitra = await phone_customer(world, number, name="Melati"), await world.mitra()
    customer_id, session_id = customer.user["id"], await world.session(customer, mitra)
    done = world.stack.command("customer", "erase", customer_id, check=False)
    assert done.returncode == 1
    assert "session in progress" in done.stderr
    await finish(customer, mitra, session_id)
    world.stack.command("customer", "erase", customer_id)
    world.stack.command("customer", "erase", customer_id)  # again
    await refused(customer.get("/api/client/auth/me"), 401, "REFRESH_INVALID")
    await completed(world, customer_id)
    assert await entries(world, customer_id) == [("customer.erased", "command line")]


async def test_command_erases_a_deactivated_mitra_and_keeps_their_conversations(world: World) -> None:
    customer, mitra = await phone_customer(world), await world.mitra("Cempaka")
    session_id = await world.session(customer, mitra)
    await say(mitra, session_id, "selamat pagi")
    await finish(customer, mitra, session_id)
    mitra_id, phone = mitra.user["id"], mitra.user["phone"]
    done = world.stack.command("mitra", "erase", mitra_id, check=False)
    assert done.returncode == 1
    assert "deactivate them first" in done.stderr
    copy = json.loads(world.stack.command("mitra", "export", mitra_id).stdout)
    assert [one["content"] for one in copy["sessions"][0]["messages"]] == ["selamat pagi"]
    operator = await world.operator()
    await operator.call("PATCH", f"/internal/mitras/{mitra_id}", {"is_active": False})
    world.mitras.remove(mitra)
    noted = "UPDATE chat_sessions SET mitra_unshown = '{}' WHERE id = $1"
    await world.stack.sql(noted, session_id)
    world.stack.command("mitra", "erase", mitra_id, "--operator", EMAIL)
    await completed(world, mitra_id)
    assert (
        await world.stack.sql("SELECT 1 FROM chat_sessions WHERE mitra_unshown IS NOT NULL AND id = $1", session_id)
        == []
    )
    assert (await entries(world, mitra_id))[0] == ("mitra.erased", "Root")
    for table in ("mitras", "auth_sessions", "otp_requests", "operator_audit_log", "pushes"):
        text = "\n".join(row["t"] for row in await world.stack.sql(f"SELECT t::text AS t FROM {table} t"))
        assert phone not in text, table
        assert "Cempaka" not in text, table
    seen = await customer.get(f"/api/shared/chat/sessions/{session_id}/messages")
    assert [one["content"] for one in seen["items"]] == ["selamat pagi"]
    await refused(operator.call("PATCH", f"/internal/mitras/{mitra_id}", {"is_active": True}), 404, "NOT_FOUND")
    made = await operator.post("/internal/mitras", {"phone": phone, "display_name": "Cempaka", "is_active": True})
    assert made["id"] != mitra_id  # the phone is free again


async def test_restored_customer_is_erased_again_from_the_list(world: World, tmp_path: pathlib.Path) -> None:
    number = new_number()
    customer, other = await phone_customer(world, number, name="Melati"), await phone_customer(world)
    customer_id = customer.user["id"]
    world.stack.command("customer", "erase", customer_id)
    listed = world.stack.command("erasures", "list").stdout
    assert customer_id in listed
    assert other.user["id"] not in listed
    # What a restored backup brings back.
    await world.stack.sql("DELETE FROM erasures WHERE user_id = $1", customer_id)
    await world.stack.sql(
        "UPDATE customers SET phone = $2, display_name = 'Melati', erased_at = NULL WHERE id = $1", customer_id, number
    )
    path = tmp_path / "list.jsonl"
    path.write_text(world.stack.log("api") + "\nnot JSON\n" + listed)
    done = world.stack.command("erasures", "reapply", str(path))
    assert "0 could not be erased" in done.stdout
    (row,) = await world.stack.sql("SELECT phone, display_name, erased_at FROM customers WHERE id = $1", customer_id)
    assert (row["phone"], row["display_name"]) == (None, None)
    assert row["erased_at"] is not None
    again = device(world)
    again._keep(await by_phone(world, again, number))
    assert again.user["id"] != customer_id
