"""Column makers with our defaults: nothing is filled in silently, and deleting never spreads unless it says so."""

from typing import Any

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

MODULES = {
    "Customer": "core.customers.tables",
    "Mitra": "core.mitras.tables",
    "Operator": "core.operators.tables",
    "Role": "core.operators.tables",
    "PaymentRequest": "core.payments.tables",
    "ChatSession": "core.sessions.tables",
    "PricingTier": "core.pricing.tables",
    "PricingPromotion": "core.pricing.tables",
}


def identifier() -> UUID:
    """The primary key: a UUIDv7 made by the service."""
    return UUID(primary_key=True, default=None, null=False)


def plain_id(*, null: bool = True) -> UUID:
    """A UUID that refers to nothing the database checks."""
    return UUID(default=None, null=null)


def reference(
    table: str, *, null: bool = False, on_delete: OnDelete = OnDelete.restrict, unique: bool = False
) -> ForeignKey[Any]:
    """A foreign key, by the table class's name."""
    return ForeignKey(
        LazyTableReference(table, module_path=MODULES[table]),
        default=None,
        null=null,
        on_delete=on_delete,
        unique=unique,
    )


def string(length: int, *, null: bool = False, default: str | None = None, unique: bool = False) -> Varchar:
    """A varchar."""
    return Varchar(length=length, default=default, null=null, unique=unique)


def text(*, null: bool = False, default: str | None = None) -> Text:
    """A text of any length; its bounds are rules."""
    return Text(default=default, null=null)


def number(*, null: bool = False, default: int | None = None) -> Integer:
    """A 32-bit integer."""
    return Integer(default=default, null=null)


def big_number(*, null: bool = False, default: int | None = None) -> BigInt:
    """A 64-bit integer."""
    return BigInt(default=default, null=null)


def flag(*, default: bool | None = False) -> Boolean:
    """A boolean that is never null."""
    return Boolean(default=default, null=False)


def moment(*, null: bool = True) -> Timestamptz:
    """A timestamptz, given by the service: the database's own now() is not the service's time."""
    return Timestamptz(default=None, null=null)


def created() -> Timestamptz:
    """When the row was made. The service always gives it; the database's own time is the specification's default."""
    return Timestamptz(default=TimestamptzNow(), null=False)


def json(*, null: bool = True, default: str | None = None) -> JSONB:
    """A JSON document."""
    return JSONB(default=default, null=null)


def texts(*, null: bool = True) -> Array:
    """An array of texts."""
    return Array(base_column=Text(), default=None, null=null)


def raw_bytes(*, null: bool = False) -> Bytea:
    """Bytes, verbatim."""
    return Bytea(default=None, null=null)
