"""Writes and locking reads of operators, roles and the audit log."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from core.accounts.operators import rules
from core.accounts.operators.rules import Permissions
from core.accounts.operators.tables import Operator as Operators
from core.accounts.operators.tables import OperatorAudit as AuditRows
from core.base import ids
from core.base.field_types import OperatorId, RoleId
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.records import many, one
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

LIST = "list"  # object_id of an audit row about several objects; their ids are in `after`


@attrs.frozen(kw_only=True)
class Operator:
    """An operator with the permissions of their role."""

    id: OperatorId
    email: str
    display_name: str
    role_id: RoleId
    role_name: str
    permissions: Permissions
    password_hash: str = attrs.field(repr=False)
    password_change_due: bool
    disabled: bool
    has_totp: bool
    totp_by_role: bool  # the role requires a second factor; ask `requires_totp`
    recovery_codes_left: int
    created_at: dt.datetime

    def requires_totp(self, *, production: bool) -> bool:
        """Return whether the operator needs a second factor."""
        return rules.requires_totp(self.permissions, by_role=self.totp_by_role, production=production)

    def must_enrol(self, *, production: bool) -> bool:
        """Return whether the operator needs a second factor and has not set one up."""
        return not self.has_totp and self.requires_totp(production=production)


SQL = sql_files.load(__file__)
GET = f"""{SQL["operators"]}
WHERE o.id = $1"""
BY_EMAIL = f"""{SQL["operators"]}
WHERE o.email = $1"""
LOCK = statement(Operators.select(Operators.id).where(Operators.id == p.id).lock_rows("UPDATE"))
WITH_ROLE = f"""{SQL["operators"]}
WHERE o.role_id = $1
ORDER BY o.id
FOR NO KEY UPDATE OF o"""
LOCK_BY_EMAIL = statement(Operators.select(Operators.id).where(Operators.email == p.email).lock_rows("UPDATE"))
ANY_OPERATOR = statement(Operators.select(Operators.id).limit(1))
OTHER_WITH_EMAIL = statement(Operators.select(Operators.id).where(Operators.email == p.email, Operators.id != p.id))
CREATE = statement(
    insert(Operators, "id email display_name role_id password_hash password_change_due created_at")
    .on_conflict(Operators.email, "DO NOTHING")
    .returning(Operators.id)
)
AUDIT = statement(insert(AuditRows, "id operator_id action object_type object_id before after created_at"))


async def get(reader: Reader, operator_id: str) -> Operator | None:
    """Read an operator."""
    return one(Operator, await reader.fetchrow(GET, operator_id))


async def by_email(reader: Reader, email: str) -> Operator | None:
    """Read the operator with this e-mail, ignoring case."""
    return one(Operator, await reader.fetchrow(BY_EMAIL, email.lower()))


async def lock_by_email(tx: Tx, email: str) -> Operator | None:
    """Lock and read the operator with this e-mail, ignoring case.

    Two statements, so that the second one sees what changed while the first waited for the lock, such as the role.
    """
    await LOCK_BY_EMAIL.execute(tx, email=email.lower())
    return await by_email(tx, email)


async def create(
    tx: Tx, *, email: str, display_name: str, role_id: str, password_hash: str, password_change_due: bool
) -> str | None:
    """Insert an operator and return the id, None if the e-mail is taken."""
    return await CREATE.value(
        tx,
        id=ids.new_id(),
        email=email.lower(),
        display_name=display_name,
        role_id=role_id,
        password_hash=password_hash,
        password_change_due=password_change_due,
        created_at=tx.now,
    )


async def hold_rights(tx: Tx) -> None:
    """Serialise changes of operators and roles, because two at once could together remove the last administrator."""
    await locks.hold(tx, AdvisoryLock.OPERATOR_RIGHTS)


async def update(
    tx: Tx,
    operator_id: str,
    *,
    email: str,
    display_name: str,
    role_id: str,
    password_hash: str,
    disabled: bool,
    password_change_due: bool = False,
) -> bool:
    """Change an operator. Return False if another operator has the e-mail. A new password ends a lockout.

    `password_change_due` says that another person chose the new password.
    """
    if await OTHER_WITH_EMAIL.value(tx, id=operator_id, email=email.lower()):
        return False
    await tx.execute(
        SQL["update"], operator_id, email.lower(), display_name, role_id, password_hash, disabled, password_change_due
    )
    return True


async def lock(tx: Tx, operator_id: str) -> Operator | None:
    """Lock and read an operator, in two statements like `lock_by_email`."""
    await LOCK.execute(tx, id=operator_id)
    return await get(tx, operator_id)


async def lock_with_role(tx: Tx, role_id: str) -> list[Operator]:
    """Lock and read the operators with this role, in the order of their ids."""
    return many(Operator, await tx.fetch(WITH_ROLE, role_id))


async def any_administrator(reader: Reader) -> bool:
    """Return whether an enabled operator with a password may do everything."""
    return bool(await reader.fetchval(SQL["any_administrator"]))


async def any_operator(reader: Reader) -> bool:
    """Return whether there is any operator."""
    return bool(await ANY_OPERATOR.value(reader))


async def audit(
    tx: Tx,
    operator_id: str | None,
    action: str,
    object_type: str,
    object_id: str,
    *,
    before: Any = None,
    after: Any = None,
) -> None:
    """Insert the audit row of an operator's write, in the transaction of the write.

    Without an `operator_id` the command line wrote.

    `before` and `after` hold a customer's id and the names of fields, never a phone number, e-mail or name. Text that
    the operator wrote goes under `reason`, which `blank_operator_audit_log` empties when the customer is erased.
    """
    await AUDIT.execute(
        tx,
        id=ids.new_id(),
        operator_id=operator_id,
        action=action,
        object_type=object_type,
        object_id=object_id,
        before=before,
        after=after,
        created_at=tx.now,
    )


async def blank_audit_log(tx: Tx, user_ids: Sequence[str]) -> None:
    """Blank the personal fields of the rows about customers, their sessions and payments, or about a mitra.

    An operator's write during the erasure may be committed after it, so this is repeated when such writes have ended.
    """
    await tx.execute(SQL["blank_audit_log"], user_ids)
