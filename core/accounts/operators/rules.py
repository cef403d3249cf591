"""What an operator may do, and when sign-in is locked (docs/product.md#roles, docs/product.md#sign-in-of-operators)."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Protocol

import msgspec

from core.base import field_messages
from core.base.errors import DomainError, Forbidden, Kind, Repeat, ValidationFailed
from core.base.languages import Text

AREAS = (
    "config",
    "security",
    "pricing",
    "mitras",
    "customers",
    "customers.pii",
    "operators",
    "activity",
    "failed_pairings",
    "reports",
    "sessions",
    "payments",
    "webhooks",
    "audit",
)
LEVELS = ("read", "write")
ADMINISTRATOR = {"*": "write"}
# With write rights in these, an operator moves money or changes what protects the service and its accounts.
GUARDED_IN_PRODUCTION = ("config", "security", "operators", "failed_pairings", "payments")
Permissions = Annotated[
    dict[str, str],
    msgspec.Meta(
        description="Area to level; `*` is every area.",
        extra_json_schema={
            "propertyNames": {"enum": ["*", *AREAS]},
            "additionalProperties": {"type": "string", "enum": list(LEVELS)},
        },
    ),
]


class LoginInvalid(DomainError):
    """The e-mail address or the password is wrong; the answer does not say which."""

    kind = Kind.UNAUTHENTICATED
    code = "LOGIN_INVALID"
    message = Text(en="Incorrect e-mail or password.", id="E-mail atau kata sandi salah.")
    advice = "Let the operator type both again."


class PasswordChangeRequired(Forbidden):
    """Another person chose the caller's password. Until the caller replaces it, they can do nothing else."""

    code = "PASSWORD_CHANGE_REQUIRED"
    message = Text(en="Replace your initial password first.", id="Ganti kata sandi awal Anda dahulu.")
    repeat = Repeat.LATER
    advice = "Ask for a new password, then repeat the request."


class AccountLocked(DomainError):
    """Too many sign-ins have failed."""

    kind = Kind.LOCKED
    code = "ACCOUNT_LOCKED"
    message = Text(
        en="Too many failed logins. Try again later.",
        id="Terlalu banyak percobaan masuk yang gagal. Silakan coba lagi nanti.",
    )
    repeat = Repeat.WAIT
    advice = "Show the countdown. The right password is refused until then, too."


class EmailTaken(DomainError):
    """Another operator already uses this e-mail."""

    code = "EMAIL_TAKEN"
    message = Text(en="Another operator already uses this e-mail.", id="Operator lain memakai e-mail ini.")
    advice = "Let the operator choose another address."


class RoleNameTaken(DomainError):
    """Another role already has this name."""

    code = "ROLE_NAME_TAKEN"
    message = Text(en="Another role already has this name.", id="Peran lain memakai nama ini.")
    advice = "Let the operator choose another name."


class LastAdministrator(DomainError):
    """The change would leave the service without an administrator."""

    code = "LAST_ADMINISTRATOR"
    message = Text(en="The last administrator can't be removed.", id="Administrator terakhir harus tetap ada.")
    repeat = Repeat.LATER
    advice = "Make another operator administrator first."


def check_permissions(permissions: object) -> dict[str, str]:
    """Return a role's permissions. Raises ValidationFailed for unknown areas and levels."""
    if not isinstance(permissions, dict):
        raise ValidationFailed.of(
            "permissions",
            Text(
                en="must be an object that maps areas to read or write",
                id="harus berupa objek yang memetakan area ke read atau write",
            ),
        )
    for area, level in permissions.items():
        if area not in AREAS and area != "*":
            raise ValidationFailed.of(
                f"permissions.{area}"[:200], Text(en="must be an existing area", id="harus berupa area yang ada")
            )
        if level not in LEVELS:
            raise ValidationFailed.of(f"permissions.{area}", field_messages.one_of(LEVELS))
    return permissions


def may_grant(own: Mapping[str, str], granted: Mapping[str, str]) -> None:
    """Check that an operator with the rights `own` may give the rights `granted`. Raises Forbidden.

    An operator can't give rights that they don't have, neither to themselves nor to an operator whose password they can
    set.
    """
    for area, level in granted.items():
        areas = AREAS if area == "*" else (area,)
        if (area == "*" and own.get("*") != "write" and not (level == "read" and own.get("*") == "read")) or not all(
            allows(own, one, level) for one in areas
        ):
            raise Forbidden(
                Text(
                    en="You can't grant permissions that you don't have.",
                    id="Anda tidak dapat memberikan hak yang tidak Anda miliki.",
                )
            )


def allows(permissions: Mapping[str, str], area: str, level: str) -> bool:
    """Return whether a role's permissions give `level` (`read` or `write`) in an area. `write` includes `read`."""
    given = {permissions.get(area), permissions.get("*")}
    return "write" in given or (level == "read" and "read" in given)


def requires_totp(permissions: Mapping[str, str], *, by_role: bool, production: bool) -> bool:
    """Return whether operators with these permissions need a second factor.

    They do if their role says so (`by_role`), and in production also if they may write in a guarded area.
    """
    return by_role or (production and any(allows(permissions, area, "write") for area in GUARDED_IN_PRODUCTION))


def require(permissions: Mapping[str, str], area: str, level: str) -> None:
    """Check that the permissions give `level` in an area. Raises Forbidden."""
    if not allows(permissions, area, level):
        raise Forbidden


class _Texts(Protocol):
    """The configuration rows that are texts (core/config/cache.py)."""

    def text(self, name: str) -> str: ...


def locks_by_address(config: _Texts) -> bool:
    """Return whether failed sign-ins lock single addresses (`cc_login_lockout_scope`), not the account."""
    return config.text("cc_login_lockout_scope") == "address"


def locked_for(lockout_until: dt.datetime | None, *, now: dt.datetime) -> int | None:
    """Return the whole seconds until a lockout ends, None if it has ended."""
    if lockout_until is None or lockout_until <= now:
        return None
    return max(1, -int((now - lockout_until).total_seconds() // 1))


def after_failure(
    *,
    failed_before: int,
    lockout_until: dt.datetime | None,
    limit: int,
    lockout: dt.timedelta,
    now: dt.datetime,
) -> tuple[int, dt.datetime | None]:
    """Return (failed, lockout_until) after one more failed sign-in.

    After a lockout has ended, counting starts again at 1.
    """
    failed = 1 if lockout_until is not None and lockout_until <= now else failed_before + 1
    return failed, now + lockout if failed >= max(1, limit) else None
