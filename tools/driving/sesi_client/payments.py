"""A customer's payment requests, and the search that follows a payment (docs/protocol.md#the-customer)."""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable

from .connection import Connection
from .errors import SesiError
from .rest import Rest
from .storage import PAYMENT
from .wire import Frame, Json

POLL_S = 4.0  # while no socket brings events
REQUESTS = "/api/client/payment/requests"
FIELDS = ("payment_request_id", "status")


class Payments:
    """The payment requests that were made, read or reported on this device, by id."""

    def __init__(self, rest: Rest, connection: Connection) -> None:
        self.known: dict[str, Json] = {}
        self._rest = rest
        self._connection = connection
        self._poll: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop polling."""
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.stop()
        self.known.clear()

    async def make(self, path: str, body: Json) -> Json:
        """Make a payment request. The same wish has the same idempotency key until there is an answer.

        Raises SesiError.
        """
        wish = [path, body]
        stored = self._rest.storage.get(PAYMENT)
        is_repeat = stored is not None and stored["wish"] == wish
        key: str = stored["key"] if stored is not None and is_repeat else str(uuid.uuid4())
        self._rest.storage.set(PAYMENT, {"wish": wish, "key": key})
        try:
            request = await self._rest.ask("POST", path, body, fields=FIELDS, headers={"Idempotency-Key": key})
        except SesiError as error:
            if not error.is_temporary:
                self._rest.storage.remove(PAYMENT)
            raise
        self._rest.storage.remove(PAYMENT)
        self.keep(request)
        return await self.read(request["payment_request_id"]) if is_repeat else request  # a repeated answer may be old

    async def read(self, request_id: str) -> Json:
        """Read a request. Raises SesiError."""
        return await self.ask("GET", f"{REQUESTS}/{request_id}")

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Call a route whose answer is a payment request. Raises SesiError."""
        return self.keep(await self._rest.ask(method, path, body, fields=FIELDS))

    def keep(self, request: Json) -> Json:
        """Keep a request, unless it was read before a change that is known."""
        request_id = request["payment_request_id"]
        known = self.known.get(request_id)
        if known is None or request["status"] != "pending" or known["status"] == "pending":
            self.known[request_id] = request
        if self._poll is None and self._pending() and self._connection.is_running:
            self._poll = asyncio.create_task(self._look())
        return request

    async def refresh(self, request_id: str) -> None:
        """Read a request that is known, because an event may have changed it."""
        if request_id in self.known:
            with contextlib.suppress(SesiError):
                await self.read(request_id)

    async def refresh_pending(self) -> None:
        """Read the pending requests, because an event may have been missed."""
        for request_id in self._pending():
            await self.refresh(request_id)

    def _pending(self) -> list[str]:
        return [request_id for request_id, request in self.known.items() if request["status"] == "pending"]

    async def _look(self) -> None:
        while self._pending():
            await asyncio.sleep(POLL_S)
            if self._connection.open is None:
                await self.refresh_pending()
        self._poll = None


class Search:
    """A customer's search for a mitra: the session while it runs, and how the last one ended."""

    def __init__(
        self, rest: Rest, payments: Payments, read: Callable[[str], Awaitable[Json]], *, spawn: Callable[..., None]
    ) -> None:
        """`read` reads a session."""
        self.session: Json | None = None
        self.end: Json | None = None  # status, session_id, payment_request_id, cause_tag and mitra
        self._rest = rest
        self._payments = payments
        self._read = read
        self._spawn = spawn

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.session = self.end = None

    def take_snapshot(self, frame: Frame) -> None:
        """Handle the snapshot of `/ws/pairing`."""
        before, searching = self.session, frame.get("searching")
        self._show(searching)
        if before is not None and (searching is None or searching["id"] != before["id"]):
            self._spawn(self._find_end(before))
        self._spawn(self._payments.refresh_pending())

    def take(self, frame: Frame) -> None:
        """Handle a frame of `/ws/pairing`."""
        if frame["type"] == "payment_updated":
            self._payments.keep(frame["payment_request"])
        elif frame["type"] == "pairing_status":
            if frame["status"] != "searching":
                self._ended(frame)
            elif "event_id" in frame or self.end is None or self.end["session_id"] != frame["session_id"]:
                self._spawn(self._searching(frame))
            if "event_id" in frame:
                self._spawn(self._payments.refresh(frame["payment_request_id"]))

    def _known(self, session_id: str) -> Json | None:
        return self.session if self.session is not None and self.session["id"] == session_id else None

    async def _searching(self, frame: Frame) -> None:
        end, session_id = self.end, frame["session_id"]
        with contextlib.suppress(SesiError):
            read = self._known(session_id) or await self._read(session_id)
            session = self._known(session_id) or read  # another event may have come before the answer
            if session["status"] == "searching" and session.get("search") and self.end is end:
                asked = max(frame["asked"], session["search"]["asked"])
                self._show({**session, "search": {**session["search"], "asked": asked}})

    def _ended(self, frame: Frame) -> None:
        if self.session is not None and self.session["search"]["payment_request_id"] != frame["payment_request_id"]:
            return
        names = ("status", "session_id", "payment_request_id", "cause_tag", "mitra")
        self.session, self.end = None, {name: frame.get(name) for name in names}

    async def _find_end(self, before: Json) -> None:
        """Find out how a search ended whose event another device has acknowledged."""
        payment_request_id, failure = before["search"]["payment_request_id"], None
        with contextlib.suppress(SesiError):
            session = await self._read(before["id"])
            if session["status"] == "searching":
                return
            with contextlib.suppress(SesiError):
                failure = (await self._payments.read(payment_request_id)).get("failure")
            if self.session is not None:  # the next search has begun
                return
            cause = failure["cause_tag"] if failure else None
            status = "paired" if session["mitra"] else "cancelled" if cause == "customer_cancelled" else "failed"
            self.end = {
                "status": status,
                "session_id": before["id"],
                "payment_request_id": payment_request_id,
                "cause_tag": cause,
                "mitra": session["mitra"],
            }

    def _show(self, session: Json | None) -> None:
        self.session = session
        if session is not None:
            self.end = None
