"""No mitra without a living auth session is available (docs/product.md#end-of-a-sign-in)."""

import asyncio
import contextlib
import datetime as dt
import random
from typing import Any

import attrs
import pytest

from core.accounts.logins import devices as login_devices
from core.accounts.logins import store as logins
from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import MitraOffline, availability_policy
from core.base import ids
from core.base.actor import Actor
from core.base.errors import DomainError
from core.pairing import answer as pairing_answer
from core.pairing import catalogue, presence
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.payments.failures.causes import CauseTag
from tests.flows.chats import completed_chat
from tests.flows.conftest import ADDRESS, WISH, Harness, rows

# Those mitras among $1 without a living auth session ($2 is now) who are online, have an open invitation, or are free.
AVAILABLE = """SELECT m.id::text, o.is_online,
    EXISTS (SELECT 1 FROM chat_request_notifications n WHERE n.mitra_id = m.id AND n.response IS NULL) AS is_asked,
    EXISTS (SELECT 1 FROM free_mitras($2, false, 45, 3) f WHERE f.mitra_id = m.id) AS is_free
  FROM mitras m JOIN mitra_online_status o ON o.mitra_id = m.id
  WHERE m.id = ANY($1::uuid[]) AND NOT EXISTS (
    SELECT 1 FROM auth_sessions a WHERE a.user_id = m.id AND a.revoked_at IS NULL AND a.expires_at > $2
  )"""
LOGS = "SELECT status FROM mitra_online_logs WHERE mitra_id = $1 ORDER BY timestamp, id"
EXPIRE = "UPDATE auth_sessions SET expires_at = $2 WHERE user_id = $1"


async def quietly(work: Any) -> None:
    """Run one of several concurrent calls; a refusal is an outcome, too."""
    with contextlib.suppress(DomainError):
        await work


async def online(harness: Harness) -> Actor:
    """Return a new mitra, who is signed in and online."""
    mitra = await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    return mitra


async def searching(harness: Harness) -> str:
    """Begin a blast; return its session."""
    request_id = await harness.paid(await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return (await harness.session_of(request_id)).id


async def is_counted(harness: Harness) -> bool:
    """Return whether a mitra is counted as available."""
    runtime = harness.runtime
    policy = availability_policy(runtime.config)
    counted = (await catalogue.availability(runtime.db, policy, now=runtime.now())).answer.available
    free = await mitras.any_free(runtime.db, policy, now=runtime.now())
    assert free == (counted > 0)
    return free


@pytest.mark.slow
def test_mitra_whose_devices_end_while_they_are_asked_is_not_available(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime
    dice = random.Random(39)

    async def play() -> None:
        seen = []
        for _ in range(25):
            phone = await clean_harness.mitra()
            laptop = await clean_harness.sign_in(attrs.evolve(phone, auth_session_id=ids.new_id()))
            if dice.random() < 0.7:
                await presence.go_online(runtime, phone)
            session_id = await searching(clean_harness)
            paid = await clean_harness.paid(await clean_harness.customer())
            calls = [
                login_devices.log_out(runtime, phone),
                login_devices.revoke_device(runtime, phone, auth_session_id=laptop.auth_session_id),
                presence.go_online(runtime, laptop),
                presence.go_online(runtime, phone),
                pairing_answer.accept(runtime, laptop, session_id=session_id),
                pairing_start.start(runtime, payment_request_id=paid),
            ]
            dice.shuffle(calls)
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(quietly(call))
            await presence.close_orphaned_invitations(runtime)  # as the jobs process does
            seen += await runtime.db.fetch(AVAILABLE, [phone.user_id], runtime.now())
            logged = [row["status"] for row in await runtime.db.fetch(LOGS, phone.user_id)]
            # The times of transactions are those of their beginnings, so the rows may be in another order.
            assert logged.count("online") == logged.count("offline")
        assert [tuple(row)[1:] for row in seen] == [(False, False, False)] * 25

    clean_harness.run(play())


@pytest.mark.parametrize("ping", [False, True])
def test_mitra_whose_last_auth_session_expires_is_not_available_and_goes_offline(
    clean_harness: Harness, ping: bool
) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        mitra = await online(clean_harness)
        session_id = await searching(clean_harness)
        assert await is_counted(clean_harness)
        await runtime.db.fetch(EXPIRE, mitra.user_id, runtime.now())
        assert not await is_counted(clean_harness)
        with pytest.raises(MitraOffline):
            await pairing_answer.accept(runtime, mitra, session_id=session_id)
        other = await searching(clean_harness)
        invited = await runtime.db.fetch("SELECT 1 FROM chat_request_notifications WHERE session_id = $1", other)
        assert invited == []
        with rows(runtime, refuse_unservable_payments=True, require_mitra_ping=ping):
            with pytest.raises(DomainError) as no:
                await payment_request.request_payment(runtime, await clean_harness.customer(), WISH, address=ADDRESS)
            assert no.value.code == "NO_MITRA_AVAILABLE"
        await presence.take_signed_out_offline(runtime)
        (left,) = await runtime.db.fetch(AVAILABLE, [mitra.user_id], runtime.now())
        assert tuple(left)[1:] == (False, False, False)
        assert [row["status"] for row in await runtime.db.fetch(LOGS, mitra.user_id)] == ["online", "offline"]

    with rows(runtime, require_mitra_ping=ping):
        clean_harness.run(play())


def test_targeted_search_fails_at_once_when_its_mitra_signs_out(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness, messages=0)
        mitra, customer = chat.mitra, chat.customer
        await presence.go_online(runtime, mitra)
        request_id = await clean_harness.paid(customer, attrs.evolve(WISH, targeted_mitra_id=mitra.user_id))
        await pairing_start.start(runtime, payment_request_id=request_id)
        assert (await clean_harness.session_of(request_id)).status == "searching"
        await login_devices.log_out(runtime, mitra)
        assert (await clean_harness.session_of(request_id)).status == "failed"
        cause = "SELECT cause_tag FROM pairing_failures WHERE payment_request_id = $1"
        assert await runtime.db.fetchval(cause, request_id) == CauseTag.TARGETED_MITRA_OFFLINE

    clean_harness.run(play())


def test_mitra_with_another_device_stays_online(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        phone = await online(clean_harness)
        laptop = await clean_harness.sign_in(attrs.evolve(phone, auth_session_id=ids.new_id()))
        await login_devices.log_out(runtime, phone)
        assert await is_counted(clean_harness)
        # The other one counts only while it lives.
        await runtime.db.fetch(EXPIRE, laptop.user_id, runtime.now() + dt.timedelta(seconds=-1))
        assert not await is_counted(clean_harness)
        async with runtime.transaction() as tx:
            assert (await logins.living(tx, phone.user_id)) == [laptop.auth_session_id]

    clean_harness.run(play())
