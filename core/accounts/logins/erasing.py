"""Erase the personal data of users' devices and codes (docs/privacy.md#erasure)."""

from collections.abc import Sequence

from core.accounts.logins import codes, otp
from core.base.actor import UserType
from core.erasures.rules import phone_mark
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.transaction import Tx

SQL = sql_files.load(__file__)


async def lock_devices(tx: Tx, user_ids: Sequence[str]) -> None:
    """Lock all auth sessions of users, active and ended, in the order of their ids."""
    await tx.execute(SQL["lock_devices"], user_ids)


async def lock_codes(tx: Tx, phone: str) -> None:
    """Lock all requests for codes for a phone, of customers and mitras, and keep new ones out until the commit."""
    await codes.hold_phone(tx, phone)
    await tx.execute(SQL["lock_codes"], phone)


async def forget_codes(runtime: Runtime, tx: Tx, phone: str, *, only: UserType | None = None) -> None:
    """Delete the requests for codes for a phone; with `only` those of such users.

    Those that still count against a limit keep a mark of the phone instead.
    """
    mark = phone_mark(runtime.settings.erasure_hash_keys[0], phone=phone)
    await tx.execute(SQL["forget_codes"], phone, tx.now - otp.WINDOW, only)
    await tx.execute(SQL["mark_codes"], phone, mark, only)
