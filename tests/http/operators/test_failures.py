"""Failed pairings: found by filters, acted on once, and never after the customer has tried again.

See docs/product.md#failed-pairings.
"""

import datetime as dt
from typing import Any

import pytest

from core.payments.failures.causes import CauseTag
from core.payments.refunds.states import OPEN
from tests.http.operators.steps import an_operator, at_once, audits, every
from tests.stack import World, new_id, refused
from tests.tiers import rounds

pytestmark = pytest.mark.anyio

FAILURES = "/internal/failed-pairings"


async def a_failure(world: World, **wish: Any) -> dict[str, Any]:
    """Create an open failed pairing: a customer pays and cancels."""
    customer = await world.customer()
    payment = await world.paid(customer, **wish)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    return await find_failure(world, payment)


async def find_failure(world: World, payment: dict[str, Any], **query: Any) -> dict[str, Any]:
    rows = (await (await world.operator()).get(FAILURES, limit=200, **query))["items"]
    (row,) = [row for row in rows if row["payment_request_id"] == payment["payment_request_id"]]
    return row


@pytest.mark.slow
async def test_five_hundred_concurrent_actions_apply_one(world: World) -> None:
    root, other = await world.operator(), (await an_operator(world, {"failed_pairings": "write"})).client
    failure = await a_failure(world)
    wishes = ("refunded", "credited", "no_action")

    async def act(n: int) -> Any:
        client = (root, other)[n % 2]
        return await client.call("PATCH", f"{FAILURES}/{failure['id']}", {"operator_action": wishes[n % 3]})

    seen = await at_once(500, act)
    (done,) = [one[1] for one in seen if one[0] == 200]
    assert {one for one in seen if one[0] != 200} == {(409, "ALREADY_ACTIONED")}
    (row,) = await audits(world, failure["id"])
    assert row["action"] == "failed_pairing.actioned"
    assert row["after"] == {"operator_action": done["operator_action"]}
    assert row["operator_id"] == done["actioned_by"]["id"]
    assert done["actioned_at"] is not None
    assert await find_failure(world, failure) == done


async def test_oldest_failed_pairing_comes_first_across_pages(world: World) -> None:
    operator = await world.operator()
    made = [await a_failure(world) for _ in range(3)]
    newest = await every(operator, FAILURES, limit=2, operator_action="none")
    oldest = await every(operator, FAILURES, limit=2, operator_action="none", order="oldest")
    assert [row["id"] for row in oldest] == [row["id"] for row in newest][::-1]
    assert [row["id"] for row in oldest][-3:] == [failure["id"] for failure in made]
    await refused(operator.get(FAILURES, order="backwards"), 422, "VALIDATION_ERROR")
    seen = await operator.get(f"{FAILURES}/{made[0]['id']}")
    assert seen.pop("age_seconds") >= made[0].pop("age_seconds")
    assert seen == made[0]
    await refused(operator.get(f"{FAILURES}/{new_id()}"), 404, "NOT_FOUND")


async def test_filters_partition_the_failed_pairings(world: World) -> None:
    operator = await world.operator()
    failure, acted = await a_failure(world), await a_failure(world)
    await operator.call("PATCH", f"{FAILURES}/{acted['id']}", {"operator_action": "credited"})
    everything = {row["id"]: row for row in await every(operator, FAILURES, limit=100)}
    assert {failure["id"], acted["id"]} <= set(everything)
    by_cause = [
        row["id"] for tag in CauseTag for row in await every(operator, FAILURES, limit=100, cause_tag=tag.value)
    ]
    actions = ("none", "refunded", "credited", "no_action")
    by_action = [
        row["id"] for one in actions for row in await every(operator, FAILURES, limit=100, operator_action=one)
    ]
    assert sorted(by_cause) == sorted(by_action) == sorted(everything)
    both = await every(operator, FAILURES, limit=3, operator_action="credited", cause_tag="customer_cancelled")
    assert acted["id"] in [row["id"] for row in both]
    assert failure["id"] not in [row["id"] for row in both]
    assert all(row["superseded_at"] is None for row in everything.values())
    for query in ({"cause_tag": "None"}, {"operator_action": ""}, {"superseded": "perhaps"}):
        await refused(operator.get(FAILURES, **query), 422, "VALIDATION_ERROR")


async def test_one_of_many_operators_takes_a_failure_and_gives_it_back(world: World) -> None:
    team = [await an_operator(world, {"failed_pairings": "write"}) for _ in range(4)]
    failure = await a_failure(world)
    path = f"{FAILURES}/{failure['id']}"
    assert (failure["assigned_to"], failure["snoozed_until"]) == (None, None)

    def take(n: int) -> Any:
        return team[n % 4].client.call("PATCH", path, {"assigned_to": team[n % 4].id})

    told = "SELECT count(*) FROM deliveries WHERE recipient_id = $1::text::uuid"
    before = await world.stack.sql(told, failure["customer"]["id"])
    seen = await at_once(20, take)
    assert await world.stack.sql(told, failure["customer"]["id"]) == before  # the customer gets no event
    holder = {one[1]["assigned_to"]["id"] for one in seen if one[0] == 200}
    assert len(holder) == 1  # who has it may take it again
    assert {one for one in seen if one[0] != 200} == {(409, "ALREADY_ASSIGNED")}
    (mine,) = [one for one in team if one.id in holder]
    other = next(one for one in team if one is not mine)
    mine_listed = await every(other.client, FAILURES, limit=100, assigned_to=mine.id)
    assert [row["id"] for row in mine_listed] == [failure["id"]]
    assert failure["id"] not in [row["id"] for row in await every(mine.client, FAILURES, limit=100, assigned_to="none")]
    await refused(other.client.call("PATCH", path, {"assigned_to": new_id()}), 409, "ALREADY_ASSIGNED")
    await other.client.call("PATCH", path, {"assigned_to": None})
    await refused(other.client.call("PATCH", path, {"assigned_to": new_id()}), 422, "VALIDATION_ERROR")
    assert (await other.client.call("PATCH", path, {"assigned_to": other.id}))["assigned_to"]["id"] == other.id
    rows = await audits(world, failure["id"])
    assert {row["action"] for row in rows} == {"failed_pairing.planned"}
    assert rows[-1]["after"] == {"assigned_to": other.id, "snoozed_until": None}
    # An act ends the work.
    await mine.client.call("PATCH", path, {"operator_action": "no_action"})
    await refused(mine.client.call("PATCH", path, {"assigned_to": mine.id}), 409, "ALREADY_ACTIONED")


async def test_failure_is_put_aside_for_at_most_thirty_days(world: World) -> None:
    operator, failure = await world.operator(), await a_failure(world)
    path, now = f"{FAILURES}/{failure['id']}", await world.service_time()

    def snooze(until: dt.datetime | None) -> Any:
        return operator.call("PATCH", path, {"snoozed_until": until and until.isoformat()})

    async def listed(snoozed: str) -> bool:
        return failure["id"] in [row["id"] for row in await every(operator, FAILURES, limit=100, snoozed=snoozed)]

    assert (await listed("false"), await listed("true")) == (True, False)
    seen = await snooze(now + dt.timedelta(days=1))
    assert dt.datetime.fromisoformat(seen["snoozed_until"]) == now + dt.timedelta(days=1)
    assert (await listed("false"), await listed("true")) == (False, True)
    for until in (now - dt.timedelta(seconds=1), now + dt.timedelta(days=31)):
        await refused(snooze(until), 422, "VALIDATION_ERROR")
    await snooze(None)
    assert (await listed("false"), await listed("true")) == (True, False)
    for body in ({}, {"note": "x"}, {"operator_action": "credited", "snoozed_until": None}, {"operator_action": None}):
        await refused(operator.call("PATCH", path, body), 422, "VALIDATION_ERROR")


async def test_note_of_a_plan_stays_until_another_is_written_and_a_list_without_texts_hides_it(world: World) -> None:
    operator, failure = await world.operator(), await a_failure(world)
    path = f"{FAILURES}/{failure['id']}"
    until = (await world.service_time() + dt.timedelta(hours=1)).isoformat()
    seen = await operator.call("PATCH", path, {"snoozed_until": until, "note": "asked for their account"})
    assert seen["note"] == "asked for their account"
    (row,) = await audits(world, failure["id"])
    assert row["after"]["note"] == "asked for their account"
    assert (await operator.call("PATCH", path, {"snoozed_until": None}))["note"] == "asked for their account"
    before = len(await audits(world, failure["id"]))
    listed = await every(operator, FAILURES, limit=100, q=failure["id"], texts="false")
    assert [row["note"] for row in listed] == ["4 words, hidden"]
    assert len(await audits(world, failure["id"])) == before
    seen = await operator.call("PATCH", path, {"operator_action": "credited"})
    assert seen["note"] == "asked for their account"
    other = await a_failure(world)
    await operator.call("PATCH", f"{FAILURES}/{other['id']}", {"snoozed_until": until, "note": "first"})
    done = {"operator_action": "credited", "note": "second"}
    assert (await operator.call("PATCH", f"{FAILURES}/{other['id']}", done))["note"] == "second"


async def test_failures_are_found_by_name_phone_id_and_amount_in_each_order(world: World) -> None:
    operator = await world.operator()
    made = [await a_failure(world, duration_minutes=minutes) for minutes in (60, 30)]
    name, phone = f"Kenanga {new_id()}", f"+628190{int(new_id()[-7:], 16) % 10**7:07d}"
    sql = "UPDATE customers SET display_name = $2, phone = $3 WHERE id = $1::text::uuid"
    await world.stack.sql(sql, made[0]["customer"]["id"], name, phone)
    for q in (name.upper(), phone, f"0{phone[3:]}", made[0]["id"], made[0]["payment_request_id"], "Rp 48.000"):
        assert made[0]["id"] in [row["id"] for row in await every(operator, FAILURES, limit=100, q=q)], q
    assert [row["id"] for row in await every(operator, FAILURES, limit=100, q=name)] == [made[0]["id"]]
    amounts = [row["amount"] for row in await every(operator, FAILURES, limit=2, sort="amount")]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] == 48_000
    newest = [row["id"] for row in await every(operator, FAILURES, limit=2, sort="newest")]
    assert [row["id"] for row in await every(operator, FAILURES, limit=2, sort="oldest")] == newest[::-1]
    await refused(operator.get(FAILURES, sort="name"), 422, "VALIDATION_ERROR")


async def test_superseded_failure_refuses_actions_and_actioned_one_refuses_retry(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    async with world.setting(early_end_customer_enabled=True):
        first = await world.session(customer, mitra)
        await world.until(
            lambda: customer._once("POST", f"/api/shared/chat/sessions/{first}/end", None), lambda seen: seen[0] == 200
        )
    body = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    for tried_again in (True, False):
        payment = await customer.post("/api/client/chat/returning", body)
        await world.webhook(payment)
        asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
        await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/reject")
        failure = await find_failure(world, payment)
        assert (failure["cause_tag"], failure["targeted_mitra_id"]) == ("targeted_mitra_rejected", mitra.user["id"])
        again = {"payment_request_id": payment["payment_request_id"]}
        path = f"{FAILURES}/{failure['id']}"
        if tried_again:
            await customer.post("/api/client/chat/fallback-to-blast", again)
            await refused(operator.call("PATCH", path, {"operator_action": "refunded"}), 409, "FAILURE_SUPERSEDED")
            assert (await find_failure(world, payment, superseded="true"))["superseded_at"] is not None
            assert await audits(world, failure["id"]) == []
            await customer.post("/api/client/chat/cancel", again)
        else:
            await operator.call("PATCH", path, {"operator_action": "refunded"})
            await refused(customer.post("/api/client/chat/fallback-to-blast", again), 409, "FAILURE_ACTIONED")
            view = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
            acted = (await find_failure(world, payment))["actioned_at"]
            assert view["failure"] == {
                "cause_tag": "targeted_mitra_rejected", "sub_cause": None, "operator_action": "refunded", "actioned_at": acted,
                "refund_status": None,
            }  # fmt: skip


async def test_concurrent_action_and_retry_apply_one(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    async with world.setting(early_end_customer_enabled=True):
        first = await world.session(customer, mitra)
        await world.until(
            lambda: customer._once("POST", f"/api/shared/chat/sessions/{first}/end", None), lambda seen: seen[0] == 200
        )
    for _ in range(rounds(6)):
        payment = await customer.post(
            "/api/client/chat/returning", {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
        )
        await world.webhook(payment)
        asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
        await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/reject")
        failure = await find_failure(world, payment)
        again = {"payment_request_id": payment["payment_request_id"]}

        async def one(n: int, failure: Any = failure, again: Any = again) -> Any:
            if n:
                return await customer.post("/api/client/chat/fallback-to-blast", again)
            return await operator.call("PATCH", f"{FAILURES}/{failure['id']}", {"operator_action": "refunded"})

        acted, tried = await at_once(2, one)
        assert (acted[0] == 200) != (tried[0] == 200)
        assert acted[0] == 200 or acted == (409, "FAILURE_SUPERSEDED")
        assert tried[0] == 200 or tried == (409, "FAILURE_ACTIONED")
        if tried[0] == 200:
            await customer.post("/api/client/chat/cancel", again)


async def test_worklist_counts_failures_by_their_problem(world: World) -> None:
    mine = await an_operator(world, {"failed_pairings": "write"})
    late, stuck, declined, open_refund, aside, acted = [await a_failure(world) for _ in range(6)]
    operator = await world.operator()
    for one in (stuck, declined, open_refund):
        await operator.post(f"{FAILURES}/{one['id']}/refund", {})
    await world.stack.sql(
        "UPDATE refunds SET requested_at = requested_at - interval '3 hours', ask_at = now() + interval '1 day'"
        " WHERE failure_id = $1::uuid",
        stuck["id"],
    )
    await world.stack.sql(
        "UPDATE refunds SET status = 'failed', failure_code = 'INSUFFICIENT_BALANCE', ask_at = NULL, settled_at = now()"
        " WHERE failure_id = $1::uuid",
        declined["id"],
    )
    await world.stack.sql(
        "UPDATE pairing_failures SET created_at = created_at - interval '25 hours' WHERE id = ANY($1::uuid[])",
        [late["id"], open_refund["id"], aside["id"]],
    )
    until = (await world.service_time() + dt.timedelta(hours=1)).isoformat()
    await mine.client.call("PATCH", f"{FAILURES}/{aside['id']}", {"snoozed_until": until})
    await mine.client.call("PATCH", f"{FAILURES}/{late['id']}", {"assigned_to": mine.id})
    await operator.call("PATCH", f"{FAILURES}/{acted['id']}", {"operator_action": "no_action"})

    async def ids(**query: Any) -> set[str]:
        return {row["id"] for row in await every(mine.client, FAILURES, limit=100, **query)}

    made = {one["id"] for one in (late, stuck, declined, open_refund, aside, acted)}
    assert await ids(problem="late") & made == {late["id"]}
    assert await ids(problem="stuck") & made == {stuck["id"]}
    assert await ids(problem="refund_failed") & made == {declined["id"]}

    async def counted_and_listed() -> tuple[dict[str, Any], dict[str, Any]]:
        rows = await every(mine.client, FAILURES, limit=100, operator_action="none", snoozed="false")
        put_aside = await every(mine.client, FAILURES, limit=100, operator_action="none", snoozed="true")
        is_refunding = {row["id"]: (row["refund"] or {}).get("status") in OPEN for row in [*rows, *put_aside]}
        waiting = [row for row in rows if not is_refunding[row["id"]]]
        workers = [row["assigned_to"]["id"] for row in rows if row["assigned_to"]]
        listed = {
            "failures": len(waiting),
            "refunding": sum(is_refunding.values()),
            "short": len([row for row in waiting if row["cause_tag"] == CauseTag.PAYMENT_SHORT]),
            "taken": len(workers),
            "mine": workers.count(mine.id),
            "snoozed": len(put_aside),
            **{
                problem: len(await ids(problem=problem, snoozed="false"))
                for problem in ("late", "stuck", "refund_failed")
            },
        }
        counted = await mine.client.get("/internal/worklist")
        return {kind: counted[kind] for kind in listed}, listed

    # The refunds of other tests may end between two reads.
    counted, _ = await world.until(counted_and_listed, lambda seen: seen[0] == seen[1])
    assert counted["mine"] == 1
    assert min(counted[kind] for kind in ("late", "stuck", "refund_failed", "snoozed")) >= 1
    assert counted["refunding"] >= 2
    after = await mine.client.get("/internal/worklist")
    assert (after["reports"], after["no_reply"]) == (None, None)
    clerk = await an_operator(world, {"reports": "read", "sessions": "read"})
    seen = await clerk.client.get("/internal/worklist")
    assert {kind for kind in seen if seen[kind] is not None} == {"reports", "no_reply"}
    await refused(mine.client.get(FAILURES, problem="odd"), 422, "VALIDATION_ERROR")
