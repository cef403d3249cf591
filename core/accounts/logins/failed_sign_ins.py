"""Log and count failed sign-ins, without personal data."""

import contextlib
from collections.abc import Iterator

import attrs

from core.base.errors import DomainError, Kind
from core.runtime.container import Runtime
from core.telemetry import logs, metrics

FAILURES = frozenset({Kind.WRONG, Kind.UNAUTHENTICATED, Kind.LOCKED, Kind.TOO_SOON, Kind.FORBIDDEN})
log = logs.get("logins")


@attrs.define(kw_only=True)
class NotedAttempt:
    """One sign-in attempt. The flow fills in the fields as it learns them.

    `account` is the phone number, subject, e-mail or user id; only its keyed hash is logged.
    """

    account: str | None = None
    auth_session_id: str | None = None


@contextlib.contextmanager
def noted(runtime: Runtime, *, way: str, address: str) -> Iterator[NotedAttempt]:
    """Log and count a refusal that the block raises, and raise it again.

    `way` is the kind of sign-in: "customer code", "mitra code", "identity a", "refresh", "operator password", …
    `address` is the client's address. Refusals that say nothing about the caller, such as Unavailable, are neither
    logged nor counted.
    """
    attempt = NotedAttempt()
    try:
        yield attempt
    except DomainError as refusal:
        if refusal.kind in FAILURES:
            metrics.FAILED_SIGN_INS.labels(way, refusal.code).inc()
            account = None if attempt.account is None else runtime.keys.account_hash(attempt.account)
            log.info(
                "sign-in failed",
                way=way,
                code=refusal.code,
                address=address,
                account=account,
                auth_session_id=attempt.auth_session_id,
            )
        raise
