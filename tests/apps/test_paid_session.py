"""The README's session in two windows, at thirty times the speed: from payment to goodbye, extended on the way."""

import time
from collections.abc import Iterator

import pytest
from playwright.async_api import Browser, expect

from tests.apps.people import NUMBERS, TEST_NUMBERS, customer_app, mitra_account, mitra_app
from tests.stack import Stack, World

pytestmark = pytest.mark.anyio

WHOLE_S = 120.0
# A browser needs seconds of real time where a user needs minutes of service time.
PATIENT = {"pairing_blast_timeout_seconds": 600, "searching_timeout_minutes": 30, "extension_timeout_seconds": 600}


@pytest.fixture(scope="module")
def fast_stack() -> Iterator[Stack]:
    made = Stack(scale=30, OPERATOR_REFRESH_TOKEN_HOURS="720", **TEST_NUMBERS)
    yield made
    made.close()


@pytest.mark.timeout(240)
async def test_paid_session_in_two_windows_survives_a_reload_and_a_lost_network(
    browser: Browser, fast_world: World
) -> None:
    world = fast_world
    await mitra_account(world, "Ayu", NUMBERS[0])
    # Another address than the one that the service knows: the payment page must open there, too.
    localhost = world.stack.addresses.public.replace("127.0.0.1", "localhost")
    async with (
        world.setting(**PATIENT),
        customer_app(browser, world, base=localhost) as dewi,
        mitra_app(browser, world) as ayu,
    ):
        await (await world.operator()).post(
            "/internal/pricing/tiers", {"mode": "chat", "minutes": 6, "price_idr": 7_000}
        )
        began = time.monotonic()
        await ayu.start(NUMBERS[0])
        await dewi.start("Dewi", topics=("Work",))
        await dewi.choose_minutes(12)
        await dewi.pay()
        await ayu.accept("Dewi")

        await dewi.write("Halo Kak, aku butuh teman bicara.")
        await expect(ayu.message("Halo Kak")).to_be_visible()
        await dewi.page.reload()
        await ayu.write("Halo Dewi, aku di sini. Ceritakan pelan-pelan.")
        await expect(dewi.message("Halo Dewi")).to_be_visible()

        await dewi.lose_network()
        await dewi.write("Pekerjaanku terasa berat sekali minggu ini.")
        await dewi.sees_state("Pekerjaanku", "Sending")
        await ayu.write("Aku mendengarkan.")
        await ayu.sees_state("Aku mendengarkan", "Sent")
        await dewi.find_network()
        await expect(ayu.message("Pekerjaanku")).to_be_visible()
        await expect(dewi.message("Aku mendengarkan.")).to_be_visible()
        await dewi.sees_state("Pekerjaanku", "Read")

        warning = dewi.page.get_by_role("region", name="Warning")
        await dewi.press("More time", within=warning)
        await dewi.choose_minutes(6)
        await dewi.pay()
        await ayu.press("Go on")
        await expect(warning).to_have_count(0)
        await ayu.press("More")
        await ayu.press("Mark as sensitive")
        await ayu.press("Mark as sensitive", within=ayu.page.get_by_role("dialog", name="Is this topic sensitive?"))
        said = ["Halo Kak, aku butuh teman bicara.", "Halo Dewi, aku di sini. Ceritakan pelan-pelan."]
        said += ["Aku mendengarkan.", "Pekerjaanku terasa berat sekali minggu ini."]
        assert await dewi.shown() == await ayu.shown() == said

        await dewi.say_goodbye("Terima kasih, Kak Ayu.")
        await ayu.say_goodbye("Sama-sama, Dewi. Jaga diri.")
        await expect(dewi.page.get_by_text("Sama-sama, Dewi. Jaga diri.")).to_be_visible()
        await expect(ayu.page.get_by_text("Terima kasih, Kak Ayu.")).to_be_visible()
        took = time.monotonic() - began
    rows = await world.stack.sql("SELECT content FROM chat_messages ORDER BY seq")
    assert [row["content"] for row in rows] == said
    (session,) = await world.stack.sql("SELECT * FROM chat_sessions")
    assert (session["status"], session["extended_minutes"], session["topic_sensitivity"]) == (
        "completed",
        6,
        "sensitive",
    )
    assert took < WHOLE_S
