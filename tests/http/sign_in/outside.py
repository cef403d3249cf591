"""Simulated external services: the key server of an identity provider, and Twilio Verify."""

import base64
import contextlib
import functools
import json
import secrets
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

GARBAGE = (
    b"[" * 100_000,
    b"<html>502</html>",
    b"[]",
    b'"x"',
    b"null",
    b"\xff\xfe",
    b'{"keys": 5}',
    b'{"keys": [{"kty": "RSA"}]}',
    b"",
)


class Server:
    """A small HTTP server; subclasses override `answer`."""

    def __init__(self) -> None:
        outer = self
        self.released = threading.Event()  # releases the requests that are kept waiting

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with contextlib.suppress(ConnectionError):
                    answer = outer.answer(self.path, dict(self.headers), body)
                    if answer is None:
                        return
                    status, content, headers = answer
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(content)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Discard the log line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # `close` waits for the next poll.
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Return status, content and headers, or None to close the connection without an answer."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the server and release waiting requests."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


# -- identity providers


@attrs.frozen
class Key:
    """A signing key of an identity provider."""

    kid: str
    algorithm: str = "RS256"

    @functools.cached_property
    def private(self) -> PrivateKeyTypes:
        """Return the private key. Generating one for RSA is slow, so it happens at the first use."""
        if self.algorithm == "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def published(self) -> dict[str, Any]:
        """Return the public key as a JWK."""
        kind = jwt.get_algorithm_by_name(self.algorithm)
        made = json.loads(kind.to_jwk(self.private.public_key()))  # type: ignore[attr-defined]
        return {**made, "kid": self.kid, "alg": self.algorithm, "use": "sig"}


RSA_KEYS = [Key(f"rsa-{n}") for n in range(3)]  # all tests share them
EC_KEY = Key("ec-1", "ES256")


class IdentityServer(Server):
    """An identity provider: it publishes keys and signs tokens with them."""

    def __init__(self, *, issuer: str, audience: str) -> None:
        super().__init__()
        self.issuer, self.audience = issuer, audience
        self.keys: dict[str, Key] = {RSA_KEYS[0].kid: RSA_KEYS[0], EC_KEY.kid: EC_KEY}
        self.headers: dict[str, str] = {}
        self.fault: bytes | int | None = None  # garbage as the content, a status, or 0 to close the connection
        self.hits = 0

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Answer with the key set (JWKS)."""
        self.hits += 1
        if self.fault == 0:
            return None
        if isinstance(self.fault, int):
            return self.fault, b"{}", {}
        if self.fault is not None:
            return 200, self.fault, {}
        content = json.dumps({"keys": [key.published() for key in self.keys.values()]}).encode()
        return 200, content, {"Content-Type": "application/json", **self.headers}

    def claims(self, subject: str, **more: Any) -> dict[str, Any]:
        """Return the claims of a valid token, changed by `more`; the value None removes a claim."""
        now = int(time.time())
        made = {"iss": self.issuer, "aud": self.audience, "sub": subject, "iat": now, "exp": now + 600}
        made |= {"jti": secrets.token_hex(8), **more}  # every token differs from the others
        return {name: value for name, value in made.items() if value is not None}

    def token(self, subject: str, *, key: Key = RSA_KEYS[0], headers: dict[str, Any] | None = None, **more: Any) -> str:
        """Return a signed token. Claims and headers are not corrected: PyJWT's checks are bypassed."""
        raw = json.dumps(self.claims(subject, **more)).encode()
        return jwt.api_jws.encode(
            raw, key.private, algorithm=key.algorithm, headers={"kid": key.kid, **(headers or {})}
        )


# -- Twilio Verify


@attrs.define
class Verification:
    """One verification at Twilio."""

    sid: str
    to: str
    code: str
    status: str = "pending"
    checks: int = 0
    sends: int = 1


class TwilioServer(Server):
    """Twilio Verify v2: one SID while a verification is pending, which is gone after approval, expiry or five checks."""

    SERVICE, KEY, SECRET = "VA00000000000000000000000000000001", "SK01", "a-secret-of-twilio"
    MAX_CHECKS = 5

    def __init__(self) -> None:
        super().__init__()
        self.by_sid: dict[str, Verification] = {}
        self.calls: list[tuple[str, dict[str, str], dict[str, str]]] = []
        # Phone -> faults, one a call, of which the last repeats: a status, bytes of garbage, 0 closes the connection,
        # "late" answers late, "sent" starts the verification and does not answer.
        self.send_faults: dict[str, list[Any]] = {}
        self.check_faults: dict[str, list[Any]] = {}
        self._lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings that make a service use this server."""
        return {
            "OTP_SENDER": "twilio_verify",
            "TWILIO_VERIFY_BASE_URL": self.url,
            "TWILIO_VERIFY_SERVICE": self.SERVICE,
            "TWILIO_API_KEY": self.KEY,
            "TWILIO_API_SECRET": self.SECRET,
        }

    def of(self, phone: str) -> Verification:
        """Return the newest verification of a phone."""
        return [made for made in self.by_sid.values() if made.to == phone][-1]

    def asked(self, kind: str, **form: str) -> list[dict[str, str]]:
        """Return the calls of a kind whose form has these values."""
        return [found for what, found, _ in self.calls if what == kind and form.items() <= found.items()]

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Start or check a verification."""
        form = dict(urllib.parse.parse_qsl(body.decode()))
        kind = path.removeprefix(f"/v2/Services/{self.SERVICE}/")
        with self._lock:
            self.calls.append((kind, form, headers))
        if kind == "Verifications":
            fault, act = self._fault(self.send_faults, form["To"]), self._start
        else:
            known = self._named(form)
            fault, act = self._fault(self.check_faults, known.to if known else ""), self._check
        with self._lock:
            answer = act(form, headers) if not fault or fault == "sent" else fault
        if fault == "sent":
            self.released.wait(30)
            raise ConnectionError
        return answer

    def _named(self, form: dict[str, str]) -> Verification | None:
        """Return the verification that a check names: by its SID, or by a phone with a pending verification."""
        if "To" in form:
            return next(
                (made for made in self.by_sid.values() if (made.to, made.status) == (form["To"], "pending")), None
            )
        return self.by_sid.get(form.get("VerificationSid", ""))

    def _fault(self, faults: dict[str, list[Any]], phone: str) -> Any:
        mine = faults.get(phone)
        if not mine:
            return None
        fault = mine.pop(0) if len(mine) > 1 else mine[0]
        if fault in (None, "sent"):
            return fault
        if fault == "late":
            self.released.wait(30)
            raise ConnectionError
        if fault == 0:
            raise ConnectionError
        if isinstance(fault, tuple):
            return self._error(*fault)
        return (200, fault, {}) if isinstance(fault, bytes) else self._error(fault, fault * 100)

    def _error(self, status: int, code: Any) -> tuple[int, bytes, dict[str, str]]:
        content = {"code": code, "message": "no", "more_info": f"https://example.test/{code}", "status": status}
        return status, json.dumps(content).encode(), {"Content-Type": "application/json"}

    def _allowed(self, headers: dict[str, str]) -> bool:
        wanted = base64.b64encode(f"{self.KEY}:{self.SECRET}".encode()).decode()
        return headers.get("Authorization") == f"Basic {wanted}"

    def _start(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        if not self._allowed(headers):
            return self._error(401, 20003)
        if not form["To"].startswith("+") or form.get("Channel") not in ("sms", "whatsapp", "call"):
            return self._error(400, 60200)
        pending = [made for made in self.by_sid.values() if made.to == form["To"] and made.status == "pending"]
        if pending:
            found = pending[0]
            found.sends += 1
            if found.sends > 5:
                return self._error(429, 60203)
        else:
            found = Verification(f"VE{secrets.token_hex(16)}", form["To"], f"{secrets.randbelow(10**6):06d}")
            self.by_sid[found.sid] = found
        return self._shown(found, 201)

    def _check(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        if not self._allowed(headers):
            return self._error(401, 20003)
        found = self._named(form)
        if found is None or found.status != "pending":
            return self._error(404, 20404)
        found.checks += 1
        if found.checks > self.MAX_CHECKS:
            return self._error(429, 60202)
        if form.get("Code") == found.code:
            found.status = "approved"
        return self._shown(found, 200)

    def _shown(self, found: Verification, status: int) -> tuple[int, bytes, dict[str, str]]:
        content = {
            "sid": found.sid, "service_sid": self.SERVICE, "to": found.to, "channel": "sms", "status": found.status,
            "valid": found.status == "approved",
        }  # fmt: skip
        return status, json.dumps(content).encode(), {"Content-Type": "application/json"}
