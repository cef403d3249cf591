"""The customer and the mitra app in a browser, used by what their users see: roles and names, in English."""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

from playwright.async_api import Browser, Locator, Page, WebSocketRoute, expect

from tests.pages.browser import PHONE, open_window
from tests.stack import World
from tools.driving.device import Device

CODE = "246810"
NUMBERS = [f"+62812000000{n:02}" for n in range(1, 30)]
# The codes of these numbers are fixed, so that a test can type them in.
TEST_NUMBERS = {"OTP_TEST_NUMBERS": ",".join(f"{number}:{CODE}" for number in NUMBERS)}


class App:
    """An app in a window with the size of a phone, whose network can be lost."""

    def __init__(self, world: World, page: Page, *, frame: str = "main", base: str | None = None) -> None:
        """`frame` is the name under which the app stores what it keeps, `base` another address of the service."""
        self.world = world
        self.page = page
        self.base = base or world.stack.addresses.public
        self.query = f"lang=en&frame={frame}"
        self._sockets: list[WebSocketRoute] = []

    async def watch_sockets(self) -> None:
        """Pass frames through this process, so that `lose_network` can end the sockets."""

        def passed(socket: WebSocketRoute) -> None:
            self._sockets.append(socket)
            socket.connect_to_server()

        await self.page.route_web_socket(re.compile("/ws/"), passed)

    async def open(self, path: str) -> None:
        """Go to an address of the apps."""
        await self.page.goto(f"{self.base}/try/{path}")

    async def press(self, name: str | re.Pattern[str], *, within: Locator | None = None) -> None:
        """Press a button."""
        await (within or self.page).get_by_role("button", name=name).click()

    async def sees_heading(self, name: str | re.Pattern[str]) -> None:
        """Wait for a heading."""
        await expect(self.page.get_by_role("heading", name=name)).to_be_visible()

    async def lose_network(self) -> None:
        """Close the app's sockets and refuse new connections."""
        await self.page.context.set_offline(True)
        for socket in self._sockets:
            with contextlib.suppress(Exception):  # most of them are closed already
                await socket.close(code=1012)

    async def find_network(self) -> None:
        """Let the app connect again."""
        await self.page.context.set_offline(False)

    async def type_code(self, code: str = CODE) -> None:
        """Type the six digits of a code; the app sends it at the sixth."""
        await self.page.get_by_label("6-digit code").press_sequentially(code)

    # -- in a chat

    async def write(self, text: str) -> None:
        """Write and send a message."""
        await self.page.get_by_role("textbox", name="Message").fill(text)
        await self.page.keyboard.press("Enter")

    def message(self, text: str) -> Locator:
        """Return a message of the chat."""
        return self.page.get_by_role("log").get_by_role("listitem").filter(has_text=text)

    async def sees_state(self, text: str, state: str) -> None:
        """Wait until the user's message is in this state, such as Read."""
        await expect(self.message(text).get_by_role("img", name=state, exact=True)).to_be_visible()

    async def shown(self) -> list[str]:
        """Return the text of all messages, in the order in which they are shown."""
        return await self.page.get_by_role("log").locator(".bubble").all_text_contents()

    async def say_goodbye(self, text: str) -> None:
        """Wait for the end of the chat and write the goodbye."""
        await self.page.get_by_label(re.compile("^Your goodbye to")).fill(text, timeout=60_000)
        await self.press("Send the goodbye")


class CustomerApp(App):
    """The app of a customer."""

    async def start(self, name: str, *, topics: tuple[str, ...] = ()) -> None:
        """Open the app for the first time and come to the prices as an anonymous customer."""
        await self.open(f"customer/?{self.query}")
        await self.press("Skip")
        await self.choose_topics(*topics)
        await self.press("Continue without an account")
        await self.choose_name(name)

    async def choose_topics(self, *topics: str) -> None:
        """Choose topics and continue."""
        for topic in topics:
            await self.page.get_by_role("checkbox", name=topic, exact=True).check()
        await self.press("Continue")

    async def choose_name(self, name: str) -> None:
        """Give the name that mitras see."""
        await self.page.get_by_label("Your name").fill(name)
        await self.press("Continue")

    async def choose_minutes(self, minutes: int) -> None:
        """Choose an offer and go to the payment, whose page opens in the app."""
        await self.page.get_by_role("radio", name=re.compile(rf"^{minutes} minutes\s+Rp")).check()
        await self.press(re.compile("^Pay Rp"))

    async def pay(self) -> None:
        """Pay on the payment page that is open in the app."""
        page = self.page.frame_locator("dialog iframe")
        await page.get_by_role("button", name="Pay").click()

    async def chat_with(self, mitra: Device) -> str:
        """Come to the first chat with a mitra, who accepts by the interface. Return its id."""
        await self.start("Dewi")
        await self.choose_minutes(12)
        await self.pay()
        session_id = await answered(self.world, mitra, "accept")
        await expect(self.page.get_by_role("textbox", name="Message")).to_be_visible()
        return session_id

    async def signed_in(self, number: str) -> None:
        """Sign in with a phone number, from the screen with the choices."""
        await self.page.get_by_role("link", name="Continue with your phone").click()
        await self.ask_for_code(number)
        await self.type_code()

    async def ask_for_code(self, number: str) -> None:
        """Have a code sent."""
        await self.page.get_by_role("textbox", name="Phone number").fill(number)
        await self.press("Send the code")

    async def customer_id(self) -> str:
        """Return the id of the customer who signed in last on this service."""
        rows = await self.world.stack.sql("SELECT id::text FROM customers ORDER BY id DESC LIMIT 1")
        return rows[0]["id"]


class MitraApp(App):
    """The app of a mitra."""

    async def start(self, number: str) -> None:
        """Sign in and go online."""
        await self.open(f"mitra/?{self.query}&phone={number.replace('+', '%2B')}")
        await self.press("Send the code")
        await self.type_code()
        await self.go_online()

    async def go_online(self) -> None:
        """Switch to online, once the app knows that the mitra is offline."""
        await expect(self.page.get_by_text("You get no chat requests.")).to_be_visible()
        await self.page.get_by_role("switch", name="Online").click()
        await expect(self.page.get_by_text("You are online")).to_be_visible()

    async def accept(self, customer: str) -> None:
        """Accept a customer's request, and wait for the chat."""
        await self.press(f"Accept: {customer}")
        await expect(self.page.get_by_role("textbox", name="Message")).to_be_visible()


async def answered(world: World, mitra: Device, answer: str) -> str:
    """Wait for a chat request of a mitra, and `accept` or `reject` it by the interface. Return the session's id."""
    found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    session_id = found["items"][0]["session_id"]
    await mitra.post(f"/api/mitra/chat-requests/{session_id}/{answer}")
    return session_id


async def mitra_account(world: World, name: str, number: str) -> None:
    """Create the account of a mitra with a test number, unless it exists."""
    operator = await world.operator()
    if not (await operator.get("/internal/mitras", q=number))["items"]:
        await operator.post("/internal/mitras", {"phone": number, "display_name": name, "is_active": True})


@contextlib.asynccontextmanager
async def customer_app(
    browser: Browser, world: World, *, base: str | None = None, **options: Any
) -> AsyncIterator[CustomerApp]:
    """Open a window for the customer app, at another address of the service if `base` is given."""
    async with open_window(browser, world.stack.addresses.public, **{**PHONE, **options}) as window:
        app = CustomerApp(world, window.page, base=base)
        await app.watch_sockets()
        yield app


@contextlib.asynccontextmanager
async def mitra_app(browser: Browser, world: World, **options: Any) -> AsyncIterator[MitraApp]:
    """Open a window for the mitra app."""
    async with open_window(browser, world.stack.addresses.public, **{**PHONE, **options}) as window:
        app = MitraApp(world, window.page)
        await app.watch_sockets()
        yield app
