"""Sign-in, sign-out, and the calls that need no connection."""

import contextlib
import uuid
from typing import Any

from .errors import SesiError
from .rest import TOKEN_FIELDS, Rest
from .wire import Json

ANONYMOUS = "/api/shared/auth/anonymous"
AUTH = {"customer": "/api/client/auth", "mitra": "/api/mitra/auth"}
LINK = "/api/client/auth/link"
SESSIONS = "/api/shared/chat/sessions"


class Account(Rest):
    """One user's sign-in on this device. Calls raise Refused, or Unreached without an answer."""

    _signs_in = False
    _ended_meanwhile: str | None = None

    # -- sign-in

    async def sign_in_anonymously(self, name: str | None = None) -> Json:
        """Sign in as a new anonymous customer, with a name."""
        await self._sign_in(ANONYMOUS, None)
        return self.user if name is None else await self.set_display_name(name)

    async def request_code(self, phone: str) -> Json:
        """Have a code sent to a phone."""
        return await self.call("POST", f"{AUTH[self.role]}/otp/request", {"phone": phone})

    async def verify_code(self, otp_request_id: str, code: str) -> Json:
        """Sign in with the code that was sent to a phone. An anonymous customer keeps what they have."""
        body = {"otp_request_id": otp_request_id, "code": code}
        return await self._sign_in(f"{AUTH[self.role]}/otp/verify", body, once=True)  # a code works once

    async def sign_in_with_identity(self, provider: str, identity_token: str, nonce: str | None = None) -> Json:
        """Sign in with the token of identity provider `a` or `b`. An anonymous customer keeps what they have."""
        body = {"identity_token": identity_token, "nonce": nonce}
        return await self._sign_in(f"/api/client/auth/identity-{provider}", body)

    async def link_identity(self, provider: str, identity_token: str, nonce: str | None = None) -> Json:
        """Link an identity to the customer's account, within 10 minutes after a sign-in."""
        body = {"identity_token": identity_token, "nonce": nonce}
        return await self._ask_user("POST", f"{LINK}/identity-{provider}", body)

    async def unlink_identity(self, provider: str) -> Json:
        """Unlink an identity, within 10 minutes after a sign-in. The last way to sign in stays."""
        await self.ask("DELETE", f"{LINK}/identity-{provider}")
        return await self.refresh_user()

    async def link_phone(self, otp_request_id: str, code: str) -> Json:
        """Link a phone with the code that was sent to it, within 10 minutes after a sign-in."""
        body = {"otp_request_id": otp_request_id, "code": code}
        return self._set_user(await self.call("POST", f"{LINK}/phone", body, fields=("id",)))  # a code works once

    async def sign_out(self) -> None:
        """Forget the user, then end the auth session if the service can be reached."""
        token = self.access_token
        if token is None:
            return
        await self._end("self")
        with contextlib.suppress(SesiError):
            await self._once("POST", "/api/shared/auth/logout", None, headers={"Authorization": f"Bearer {token}"})

    async def erase_account(self, proof: Json | None = None) -> None:
        """Erase the account for good, and forget it here.

        `proof` is a code to the phone or a new token of the identity; an anonymous customer sends none.
        """
        await self.ask("POST", "/api/client/auth/me/erase", proof or {})
        await self._end("self")

    async def export_data(self) -> Json:
        """Return everything that the service stores of the customer: soon after a sign-in, once an hour."""
        return await self.call("GET", "/api/client/auth/me/export")

    async def refresh_user(self) -> Json:
        """Read the user again."""
        return await self._ask_user("GET", f"{AUTH[self.role]}/me")

    async def set_display_name(self, name: str) -> Json:
        """Set the customer's name."""
        return await self._ask_user("PATCH", "/api/client/auth/profile", {"display_name": name})

    async def _ask_user(self, method: str, path: str, body: Any = None) -> Json:
        return self._set_user(await self.ask(method, path, body, fields=("id",)))

    async def _sign_in(self, path: str, body: Json | None, *, once: bool = False) -> Json:
        """Sign in; `once`: without repeats, unless the request has a key."""
        self._signs_in, self._ended_meanwhile = True, None
        try:
            if self.user.get("is_anonymous"):
                # An expired token would be ignored, and the customer would lose what they have.
                await self.call("GET", "/api/client/auth/me")
            before = self.user
            keeps = bool(before.get("is_anonymous")) and path != ANONYMOUS
            # The request ends its own token, so it has a key, and a repeat gets the same answer.
            headers = {"Idempotency-Key": str(uuid.uuid4())} if keeps else {}
            send = self.call if once and not keeps else self.ask
            answer = await send("POST", path, body, fields=TOKEN_FIELDS, headers=headers, signed=keeps)
            self._ended_meanwhile = None
            await self._begin(answer, before)
            return self.user
        finally:
            self._signs_in = False
            if self._ended_meanwhile is not None:
                await self._end(self._ended_meanwhile)

    async def _begin(self, answer: Json, before: Json) -> None:
        """Use the tokens of a sign-in in place of those of the user `before`."""
        if before and not before.get("is_anonymous"):
            self.forget()
        self._keep(answer)

    async def _end(self, reason: str) -> None:
        if self._signs_in:  # which may be the cause, so its outcome decides
            self._ended_meanwhile = reason
        else:
            await super()._end(reason)

    # -- people

    async def report(self, session_id: str, reason: str, message: str | None = None) -> Json:
        """Report the other party of a session to the operators, also after its end. Each party can do it once."""
        return await self.ask("POST", f"{SESSIONS}/{session_id}/report", {"reason": reason, "message": message})

    async def block(self, session_id: str) -> Json:
        """Block the other party of a session: the two are never paired again. A running chat goes on."""
        return await self.ask("POST", f"{SESSIONS}/{session_id}/block")

    async def unblock(self, session_id: str) -> None:
        """Lift the user's block of the other party, by any session of the two."""
        await self.ask("DELETE", f"{SESSIONS}/{session_id}/block")

    async def blocks(self, cursor: str | None = None) -> Json:
        """Return a page of the blocks that the user has made, newest first; `cursor` is `next_cursor` of the last."""
        return await self.ask("GET", "/api/shared/blocks", params={} if cursor is None else {"cursor": cursor})

    async def receipt(self, session_id: str) -> Json:
        """Return the signed receipt of a completed session."""
        return await self.ask("GET", f"{SESSIONS}/{session_id}/receipt")

    async def push_opened(self, event_id: str) -> None:
        """Report that the user opened the app by a push. Pushes about messages need no report."""
        await self.ask("POST", "/api/shared/push-opened", {"event_id": event_id})
