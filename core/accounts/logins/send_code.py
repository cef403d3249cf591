"""Send the codes that mitras requested, after their requests were answered.

The process that stored the request sends its code at once. If it dies, or the provider fails, the jobs process finds
the row again. The code is derived from the request's id, so sending it twice sends the same code.
"""

import asyncio

from core.accounts.logins import codes, otp
from core.accounts.logins.codes import PendingCode
from core.accounts.mitras import store as mitras
from core.base.errors import OtpDeliveryFailed, Unavailable
from core.bus.inbox import InboxKind
from core.providers.otp_sender import NumberRefused, OtpVerifier, SignInCode
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

AT_ONCE = 16  # codes that the jobs process sends concurrently
log = logs.get("otp")


async def send_asked(runtime: Runtime, *, otp_request_id: str) -> None:
    """Send the code of a request that this process stored, unless another process has claimed it.

    Raises Unavailable.
    """
    async with runtime.code_sends:
        async with runtime.transaction() as tx:
            pending = await codes.claim(tx, otp_request_id)
            code = None if pending is None else await _prepare(runtime, tx, pending)
        if pending is not None and code is not None:
            await _send(runtime, pending, code)


async def send_overdue(runtime: Runtime) -> None:
    """Sweep: send codes whose process has not sent them, and retry those that the provider did not accept."""
    while True:
        taken = await codes.claim_due(runtime.db, limit=AT_ONCE)
        if not taken:
            return
        async with runtime.transaction() as tx:
            # By id, as a check of codes locks them: a phone may have two.
            in_order = sorted(taken, key=lambda pending: pending.id)
            prepared = [(pending, await _prepare(runtime, tx, pending)) for pending in in_order]
        async with asyncio.TaskGroup() as group:
            for pending, code in prepared:
                if code is not None:
                    group.create_task(_send(runtime, pending, code))
        if len(taken) < AT_ONCE:
            return


async def _prepare(runtime: Runtime, tx: Tx, pending: PendingCode) -> SignInCode | None:
    """Make the code and store its hash. Return None if nothing must be sent.

    That is so if the number does not belong to an active mitra, or the request has expired.
    """
    mitra = await mitras.by_phone(tx, pending.phone)
    if mitra is not None and not mitra.is_active:
        log.info("no code is sent: the mitra is inactive", mitra_id=mitra.id, otp_request_id=pending.id)
    if mitra is None or not mitra.is_active or pending.expires_at <= tx.now:
        await codes.sending_ended(tx, pending.id, reference=None)
        return None
    code = None
    if not isinstance(runtime.otp_sender, OtpVerifier):
        code = otp.code_for(key=runtime.keys.code_maker, otp_request_id=pending.id)
        hashed = otp.hash_code(key=runtime.keys.codes[0], otp_request_id=pending.id, code=code)
        await codes.keep_hash(tx, pending.id, hashed)
    return SignInCode(
        phone=pending.phone,
        code=code,
        channel=pending.channel,
        otp_request_id=pending.id,
        ttl_seconds=max(1, int((pending.expires_at - tx.now).total_seconds())),
    )


async def _send(runtime: Runtime, pending: PendingCode, code: SignInCode) -> None:
    """Send one code. Never raises: a row whose result could not be stored is due again when its claim ends."""
    show_code(runtime, code)
    try:
        reference, again = await _offer(runtime, code)
        metrics.CODES.labels("mitra", "not sent" if reference is None else "sent").inc()
        async with runtime.transaction() as tx:
            if again:
                await codes.send_again(tx, pending.id, after_s=codes.RETRY_S * 2 ** (pending.send_attempts - 1))
            else:
                await codes.sending_ended(tx, pending.id, reference=reference)
    except Unavailable:
        log.warning("the result of sending a code was not stored; it may be sent twice", otp_request_id=pending.id)
    except Exception:
        log.exception("sending a code failed", otp_request_id=pending.id)


async def _offer(runtime: Runtime, code: SignInCode) -> tuple[str | None, bool]:
    """Send a code. Return (reference, retry): the provider's reference or None, and whether to try again."""
    try:
        return await runtime.otp_sender.send(code), False
    except NumberRefused:
        log.warning("the provider refuses a mitra's number", otp_request_id=code.otp_request_id)
        return None, False
    except OtpDeliveryFailed:
        return None, True


def show_code(runtime: Runtime, code: SignInCode) -> None:
    """Show a code before it is sent. Its text is empty if the provider makes the code."""
    if runtime.inbox is not None:
        data = {"otp_request_id": code.otp_request_id, "channel": code.channel, "ttl_seconds": code.ttl_seconds}
        runtime.inbox.add(InboxKind.CODE, to=code.phone, text=code.code or "", **data)
