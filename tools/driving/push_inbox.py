"""A fake push provider (FCM HTTP v1) for the demo and the tests: a small server that keeps the pushes it is sent."""

import asyncio
import contextlib
import functools
import json
import pathlib
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PROJECT = "sesi-demo"
ACCESS_TOKEN = "an-access-token-of-the-push-inbox"
WAIT_S = 60.0
Answer = tuple[int, dict[str, Any], dict[str, str]]


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    # The same for all providers of a process: making one takes longer than most tests.
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class PushInbox:
    """Receive pushes. Tests set `answer`: it returns (status, body, headers) for a message, or None for success."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.token_requests: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Answer | None] = lambda _: None
        inbox = self

        class PushServer(ThreadingHTTPServer):
            request_queue_size = 128  # so that a burst of calls has no connection refused

        class PushHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == "/token":
                    inbox.token_requests.append({"body": content.decode()})
                    self._say(200, {"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"}, {})
                    return
                right = self.path == f"/v1/projects/{PROJECT}/messages:send"
                if not right or self.headers.get("Authorization") != f"Bearer {ACCESS_TOKEN}":
                    self._say(401 if right else 404, {"error": {"code": 401, "status": "UNAUTHENTICATED"}}, {})
                    return
                message = json.loads(content)["message"]
                inbox.messages.append(message)
                status, body, headers = inbox.answer(message) or (200, {"name": f"projects/{PROJECT}/messages/1"}, {})
                self._say(status, body, headers)

            def _say(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                with contextlib.suppress(OSError):  # the sender may have died
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Log nothing."""

        self._server = PushServer(("127.0.0.1", 0), PushHandler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._credentials = tempfile.NamedTemporaryFile("w", suffix=".json", prefix="sesi-push-")  # noqa: SIM115 - closed by `close`
        json.dump(self._service_account(), self._credentials)
        self._credentials.flush()
        # `close` waits for the next poll.
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _service_account(self) -> dict[str, str]:
        key = _key()
        self.public_key = key.public_key()
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "client_email": "push@sesi.test",
            "private_key_id": "key-1",
            "private_key": text.decode(),
            "token_uri": f"{self.url}/token",
        }

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings that make a service send its pushes here."""
        return {
            "PUSH_SENDER": "fcm",
            "FCM_PROJECT_ID": PROJECT,
            "FCM_CREDENTIALS_FILE": str(pathlib.Path(self._credentials.name)),
            "FCM_BASE_URL": self.url,
        }

    async def wait(self, where: Callable[[dict[str, Any]], bool], *, timeout: float = WAIT_S) -> dict[str, Any]:
        """Wait for a push for which `where` is true and return the first one. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while True:
                for message in self.messages:
                    if where(message):
                        return message
                await asyncio.sleep(0.02)

    def close(self) -> None:
        """Stop the server and delete the credentials file."""
        self._server.shutdown()
        self._server.server_close()
        self._credentials.close()
