"""What an operator may do, and when sign-in is locked (specification, Authentication 6 and 8; contract 8)."""

import datetime as dt
from collections.abc import Mapping

from core.base.errors import DomainError, Forbidden, Kind, ValidationFailed

AREAS = (
    "config", "pricing", "mitras", "customers", "customers.pii", "operators", "activity", "failed_pairings",
    "sessions", "payments", "webhooks",
)  # fmt: skip
ADMINISTRATOR = {"*": "write"}


class LoginInvalid(DomainError):
    """Not the e-mail and password of an operator; it does not say which."""

    kind = Kind.UNAUTHENTICATED
    code = "LOGIN_INVALID"
    message = "E-mail or password is not right."


class PasswordChangeRequired(Forbidden):
    """Another person chose the caller's password: until the caller replaces it, they can do nothing else."""

    code = "PASSWORD_CHANGE_REQUIRED"
    message = "Choose a password of your own first."


class AccountLocked(DomainError):
    """Too many failed logins; wait."""

    kind = Kind.LOCKED
    code = "ACCOUNT_LOCKED"
    message = "Too many failed logins. Try again later."


class EmailTaken(DomainError):
    """Another operator has this e-mail."""

    code = "EMAIL_TAKEN"
    message = "Another operator has this e-mail."


class RoleNameTaken(DomainError):
    """Another role has this name."""

    code = "ROLE_NAME_TAKEN"
    message = "Another role has this name."


class LastAdministrator(DomainError):
    """Without this operator nobody could let anybody in any more."""

    code = "LAST_ADMINISTRATOR"
    message = "The last administrator stays."


def check_permissions(permissions: object) -> dict[str, str]:
    """Return a role's permissions. Raises ValidationFailed for unknown areas and levels."""
    if not isinstance(permissions, dict):
        raise ValidationFailed.of("permissions", "is an object: area to read or write")
    for area, level in permissions.items():
        if area not in AREAS and area != "*":
            raise ValidationFailed.of(f"permissions.{area}"[:200], "is no area")
        if level not in ("read", "write"):
            raise ValidationFailed.of(f"permissions.{area}", "is read or write")
    return permissions


def is_administrator(permissions: Mapping[str, str]) -> bool:
    """Whether a role may do everything."""
    return permissions.get("*") == "write"


def may_grant(own: Mapping[str, str], granted: Mapping[str, str]) -> None:
    """Nobody gives rights that she does not have: neither to herself nor to somebody she could sign in as.

    Raises Forbidden.
    """
    for area, level in granted.items():
        areas = AREAS if area == "*" else (area,)
        if (area == "*" and own.get("*") != "write" and not (level == "read" and own.get("*") == "read")) or not all(
            allows(own, one, level) for one in areas
        ):
            raise Forbidden("You can't give rights that you don't have.")


def allows(permissions: Mapping[str, str], area: str, level: str) -> bool:
    """Whether a role's permissions give `level` (read or write) in an area; write includes read."""
    given = {permissions.get(area), permissions.get("*")}
    return "write" in given or (level == "read" and "read" in given)


def require(permissions: Mapping[str, str], area: str, level: str) -> None:
    """Raises Forbidden unless the permissions give `level` in the area."""
    if not allows(permissions, area, level):
        raise Forbidden


def locked_for(lockout_until: dt.datetime | None, *, now: dt.datetime) -> int | None:
    """Return the seconds that a lockout still lasts; None when there is none."""
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
    """Return the count and lockout after one more failed login. A lockout that has passed starts the count anew."""
    failed = 1 if lockout_until is not None and lockout_until <= now else failed_before + 1
    return failed, now + lockout if failed >= max(1, limit) else None
