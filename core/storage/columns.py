"""Column makers with our defaults: no value is filled in silently, and a delete cascades only where the column says
so. `ENGINE` is the engine of every table.

Columns of free content say with `personal` whether they hold a person's data (core/storage/personal.py).
"""

from typing import Any, get_args

from piccolo.columns import (
    JSONB,
    UUID,
    Array,
    BigInt,
    Boolean,
    Bytea,
    ForeignKey,
    Integer,
    LazyTableReference,
    Text,
    Timestamptz,
    Varchar,
)
from piccolo.columns.base import OnDelete
from piccolo.columns.defaults.timestamptz import TimestamptzNow
from piccolo.constraints import Check
from piccolo.engine.postgres import PostgresEngine

from core.storage.personal import UNSAID, Personal, declare

MODULES = {
    "AuthSession": "core.accounts.logins.tables",
    "Customer": "core.accounts.customers.tables",
    "Mitra": "core.accounts.mitras.tables",
    "Operator": "core.accounts.operators.tables",
    "Role": "core.accounts.operators.tables",
    "KnownCause": "core.payments.failures.tables",
    "PairingFailure": "core.payments.failures.tables",
    "PaymentRequest": "core.payments.tables",
    "ChatSession": "core.sessions.tables",
    "PricingTier": "core.payments.pricing.tables",
    "PricingPromotion": "core.payments.pricing.tables",
}


class _NoConnections(PostgresEngine):
    """Tells Piccolo that the tables are in PostgreSQL. It never connects; statements run on connections of our pool."""

    async def check_version(self) -> None:
        """Skip the check."""

    async def prep_database(self) -> None:
        """Make no extensions: the migrations do."""

    async def get_new_connection(self) -> Any:
        raise RuntimeError("compile the query with core.storage.statements and run it in a transaction")


ENGINE = _NoConnections(config={})


def words(column: str, kind: Any) -> Check:
    """Return a CHECK that a column has one of the values of `kind`: an enum, a Literal or a tuple. It allows null."""
    listed = ", ".join(f"'{value}'" for value in get_args(kind) or kind)
    check = Check(f"{column} IN ({listed})")
    vars(check).update(column=column, kind=kind)
    return check


def identifier(*, owner: bool = False) -> UUID:
    """Return a primary key: a UUIDv7 made by the service. `owner`: it is the id of a user."""
    return declare(UUID(primary_key=True, default=None, null=False), owner=owner)


def plain_id(*, null: bool = True, personal: Personal | None = None, owner: bool | str = False) -> UUID:
    """Return a UUID column without a foreign key.

    `owner`: the row belongs to the user with this id, or to the owner of the row of the table with this class name.
    """
    by = LazyTableReference(owner, module_path=MODULES[owner]) if isinstance(owner, str) else owner
    return declare(UUID(default=None, null=null), personal=personal, owner=by)


def reference(
    table: str,
    *,
    null: bool = False,
    on_delete: OnDelete = OnDelete.restrict,
    unique: bool = False,
    primary_key: bool = False,
    owner: bool = False,
) -> ForeignKey[Any]:
    """Return a foreign key. `table` is the name of the table's class.

    `owner`: the row belongs to the user that it refers to, or to the owner of the row that it refers to.
    """
    column = ForeignKey(
        LazyTableReference(table, module_path=MODULES[table]),
        default=None,
        null=null,
        on_delete=on_delete,
        unique=unique,
        primary_key=primary_key,
    )
    return declare(column, owner=owner)


def string(
    length: int,
    *,
    null: bool = False,
    default: str | None = None,
    unique: bool = False,
    personal: Personal | None = UNSAID,
) -> Varchar:
    """Return a varchar column of at most `length` characters."""
    return declare(Varchar(length=length, default=default, null=null, unique=unique), personal=personal)


def string_key(length: int, *, personal: Personal | None = UNSAID) -> Varchar:
    """Return a primary key that is a text of at most `length` characters."""
    return declare(Varchar(length=length, primary_key=True, default=None, null=False), personal=personal)


def text(*, null: bool = False, default: str | None = None, personal: Personal | None = UNSAID) -> Text:
    """Return a text column without a limit; rules bound its length."""
    return declare(Text(default=default, null=null), personal=personal)


def number(*, null: bool = False, default: int | None = None, personal: Personal | None = None) -> Integer:
    """Return a 32-bit integer column."""
    return declare(Integer(default=default, null=null), personal=personal)


def big_number(*, null: bool = False, default: int | None = None) -> BigInt:
    """Return a 64-bit integer column."""
    return BigInt(default=default, null=null)


def flag(*, default: bool | None = False, personal: Personal | None = None) -> Boolean:
    """Return a boolean column that is never null."""
    return declare(Boolean(default=default, null=False), personal=personal)


def moment(*, null: bool = True, personal: Personal | None = None) -> Timestamptz:
    """Return a timestamptz column. The service gives the value, because the database's now() is not service time."""
    return declare(Timestamptz(default=None, null=null), personal=personal)


def created() -> Timestamptz:
    """Return a timestamptz column for when the row was made. The service always gives it; the default is never used."""
    return Timestamptz(default=TimestamptzNow(), null=False)


def json(*, null: bool = True, default: str | None = None, personal: Personal | None = UNSAID) -> JSONB:
    """Return a jsonb column."""
    return declare(JSONB(default=default, null=null), personal=personal)


def texts(*, null: bool = True, personal: Personal | None = UNSAID) -> Array:
    """Return a column with an array of texts."""
    return declare(Array(base_column=Text(), default=None, null=null), personal=personal)


def plain_ids() -> Array:
    """Return a column with an array of UUIDs, null for none."""
    return declare(Array(base_column=UUID(default=None), default=None, null=True), personal=None)


def raw_bytes(*, null: bool = False, personal: Personal | None = UNSAID) -> Bytea:
    """Return a bytea column."""
    return declare(Bytea(default=None, null=null), personal=personal)
