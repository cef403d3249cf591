"""A fake messaging provider for the demo and the tests: a small server that keeps the codes it is sent."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "inbox-token"
WAIT_S = 15.0


class CodeInbox:
    """Receive codes as the `http` sender posts them, and hand them out by OTP request id."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        self.fail = False  # True: answer 503, as a provider that is down
        self.refused_numbers: set[str] = set()  # phone numbers that are answered with 422
        self.held = threading.Event()  # while it is clear, calls wait for their answer
        self.held.set()
        inbox = self

        class CodeServer(ThreadingHTTPServer):
            request_queue_size = 128  # so that a burst of calls has no connection refused

        class CodeHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                call = json.loads(self.rfile.read(size))
                right = self.headers.get("Authorization") == f"Bearer {TOKEN}"
                inbox.held.wait(WAIT_S)
                status = 503 if inbox.fail else 200 if right else 401
                if status == 200 and call["phone"] in inbox.refused_numbers:
                    status = 422
                if status == 200:
                    inbox.requests.append(call)
                    inbox._codes[call["otp_request_id"]] = call["code"]
                content = json.dumps({"reference": f"inbox-{call['otp_request_id']}"}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Log nothing."""

        self._server = CodeServer(("127.0.0.1", 0), CodeHandler)
        # `close` waits for the next poll.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings that make a service send its codes here."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/otp"
        return {"OTP_SENDER": "http", "OTP_HTTP_URL": url, "OTP_HTTP_TOKEN": TOKEN}

    async def code_of(self, otp_request_id: str) -> str:
        """Wait for the code of an OTP request and return it. Raises TimeoutError after WAIT_S seconds."""
        async with asyncio.timeout(WAIT_S):
            while otp_request_id not in self._codes:
                await asyncio.sleep(0.02)
        return self._codes[otp_request_id]

    def close(self) -> None:
        """Stop the server."""
        self.held.set()
        self._server.shutdown()
        self._server.server_close()
