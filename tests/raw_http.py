"""HTTP/1.1 by hand, for clients that violate the protocol."""

import asyncio
import json

START = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
# Requests whose headers exceed a bound of the listeners that face clients, by what exceeds it.
TOO_LARGE = {
    "70 KB": START + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n",
    "300 KB, unfinished": START + b"X-Long: " + b"a" * 300_000,
    "102 fields": START + b"".join(b"X-%d: 1\r\n" % n for n in range(101)) + b"\r\n",
    "40,000 fields": START + b"a: 1\r\n" * 40_000 + b"\r\n",
    "address of 70 KB": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


async def sent(port: int, *parts: bytes, pause: float = 0, timeout: float = 30) -> bytes:
    """Send parts over one connection; return all bytes received until the service closed it.

    `pause` and `timeout` are in seconds.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
        except ConnectionError:
            return

    sending = asyncio.create_task(send())
    got = b""
    try:
        async with asyncio.timeout(timeout):
            while part := await reader.read(65_536):
                got += part
    except ConnectionError:
        pass
    finally:
        sending.cancel()
        writer.close()
    return got


def code_of(raw: bytes) -> tuple[int, str]:
    """Return the status and the error code of a raw answer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"x-request-id: " in head.lower()
    assert b"x-server-time: " in head.lower()
    assert b"content-language: " in head.lower()
    assert b"vary: accept-language" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]["code"]
