"""Pushes for one account: its newest devices, its minute, and the order in which pushes are claimed."""

import datetime as dt

from core.accounts.logins import push_tokens, tokens
from core.accounts.logins.push_tokens import PUSHED_DEVICES
from core.base import ids
from core.base.actor import UserType
from core.base.languages import Text
from core.deliveries.pushes import store as pushes
from core.deliveries.pushes.plan import FOR_URGENT, MOST, DuePush, PushBudget, plan
from core.deliveries.pushes.rules import Action, Content, Words
from tests.flows.conftest import Harness

HELD = "SELECT count(*)::int FROM auth_sessions WHERE user_id = $1 AND push_token IS NOT NULL"
PLANNED = """SELECT count(*) FILTER (WHERE urgent)::int AS urgent, count(*) FILTER (WHERE NOT urgent)::int AS ordinary
  FROM pushes WHERE auth_session_id = ANY($1::uuid[])"""
SOME = Text(en="x", id="x")


async def signed_in(harness: Harness, user_type: UserType, user_id: str, count: int) -> list[str]:
    """Open auth sessions of a user, each with a push token; return the tokens in order."""
    runtime, made = harness.runtime, list[str]()
    for _ in range(count):
        async with runtime.transaction() as tx:
            opening = tokens.Opening()
            await tokens.issue(runtime, tx, user_type=user_type, user_id=user_id, device={}, opening=opening)
        async with runtime.transaction() as tx:
            made.append(f"token-{ids.new_id()}")
            assert await push_tokens.move(tx, opening.auth_session_id, made[-1], locale=None) is not None
    return made


def a_push(recipient_id: str, *, urgent: bool) -> DuePush:
    """Return a push for all devices of a recipient."""
    data = {"action": Action.OPEN_MESSAGE.value, "event": "message", "event_id": ids.new_id()}
    words = Words(action=Action.OPEN_MESSAGE, title=SOME, body=SOME)
    content = Content(data=data, words=words, urgent=urgent, ttl=dt.timedelta(hours=1))
    return DuePush(recipient_id=recipient_id, content=content)


def test_account_has_push_tokens_on_its_ten_newest_devices_only(clean_harness: Harness) -> None:
    async def devices() -> None:
        harness = clean_harness
        for user_type, actor, earlier in (
            (UserType.CUSTOMER, await harness.customer(), "now() - interval '1 day'"),
            (UserType.MITRA, await harness.mitra(), "NULL"),
        ):
            made = await signed_in(harness, user_type, actor.user_id, PUSHED_DEVICES + 4)
            assert await harness.runtime.db.fetchval(HELD, actor.user_id) == PUSHED_DEVICES
            # Tokens that older processes left are not used either.
            more = f"""UPDATE auth_sessions SET push_token = id::text, push_token_at = {earlier}
              WHERE user_id = $1 AND push_token IS NULL"""
            await harness.runtime.db.fetch(more, actor.user_id)
            assert await push_tokens.newest(harness.runtime.db, actor.user_id) == made[-1]
            for _ in range(2):
                async with harness.runtime.transaction() as tx:
                    found = (await push_tokens.devices(tx, [actor.user_id]))[actor.user_id]
                assert [one.push_token for one in found] == made[::-1][:PUSHED_DEVICES]
                made += await signed_in(harness, user_type, actor.user_id, 1)
                assert await harness.runtime.db.fetchval(HELD, actor.user_id) == PUSHED_DEVICES

    clean_harness.run(devices())


def test_recipient_gets_sixty_pushes_a_minute_and_urgent_ones_first(clean_harness: Harness) -> None:
    async def minute() -> None:
        runtime, mitra, budget = clean_harness.runtime, await clean_harness.mitra(), PushBudget()
        await signed_in(clean_harness, UserType.MITRA, mitra.user_id, PUSHED_DEVICES)
        sessions = await runtime.db.fetch("SELECT id FROM auth_sessions WHERE user_id = $1", mitra.user_id)
        for ordinary, urgent in ((8, 1), (0, 3)):
            due = [a_push(mitra.user_id, urgent=False) for _ in range(ordinary)]
            async with runtime.transaction() as tx:
                await plan(tx, [*due, *(a_push(mitra.user_id, urgent=True) for _ in range(urgent))], budget=budget)
        (planned,) = await runtime.db.fetch(PLANNED, [row["id"] for row in sessions])
        # The urgent push of the first plan took ten of those that ordinary ones may use.
        assert tuple(planned) == (PUSHED_DEVICES + FOR_URGENT, MOST - FOR_URGENT - PUSHED_DEVICES)

    clean_harness.run(minute())


def test_urgent_pushes_are_claimed_first_in_the_order_of_an_index(clean_harness: Harness) -> None:
    async def claims() -> None:
        db = clean_harness.runtime.db
        await db.fetch("DELETE FROM pushes")
        await db.fetch(
            """INSERT INTO pushes (id, auth_session_id, push_token, content, urgent, due_real_at, expires_real_at)
               SELECT gen_random_uuid(), gen_random_uuid(), n::text, '{}', n % 1000 = 0,
                 now() - make_interval(secs => 4000 - n), now() + interval '1 hour' FROM generate_series(1, 4000) AS n"""
        )
        await db.fetch("ANALYZE pushes")
        select = pushes.SQL["claim"].split("ARRAY(", 1)[1].split("FOR UPDATE", 1)[0].partition("\n")[2]
        lines = await db.fetch("EXPLAIN " + select.replace("$1", "5"))
        text = "\n".join(row[0] for row in lines)
        assert "pushes_next" in text
        assert "Sort" not in text
        claimed = await pushes.claim(db, limit=5)
        assert sorted(int(one.push_token) for one in claimed) == [1, 1000, 2000, 3000, 4000]
        await db.fetch("DELETE FROM pushes")

    clean_harness.run(claims())
