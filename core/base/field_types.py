"""Types of fields that several concepts share. The OpenAPI and AsyncAPI documents take formats and bounds from them."""

import datetime as dt
from typing import Annotated, Literal, NewType

import attrs
import msgspec

MAX_INT = 2**31 - 1  # of PostgreSQL's integer

Id = NewType("Id", str)
"""The id of a row: a UUIDv7 in its canonical form (core/base/ids.py)."""
# Type checkers allow only a class as the supertype; msgspec reads the pattern and the format from it at run time.
Id.__supertype__ = Annotated[  # type: ignore[attr-defined]
    str,
    msgspec.Meta(
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$",
        extra_json_schema={"format": "uuid"},
    ),
]
CustomerId = NewType("CustomerId", Id)
MitraId = NewType("MitraId", Id)
OperatorId = NewType("OperatorId", Id)
RoleId = NewType("RoleId", Id)
TierId = NewType("TierId", Id)
SessionId = NewType("SessionId", Id)
MessageId = NewType("MessageId", Id)
ExtensionId = NewType("ExtensionId", Id)
PaymentRequestId = NewType("PaymentRequestId", Id)
ClientMessageId = NewType("ClientMessageId", str)
"""The id that an app gave to a message: a UUID of any version, in its canonical form."""
ClientMessageId.__supertype__ = Annotated[  # type: ignore[attr-defined]
    str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", extra_json_schema={"format": "uuid"})
]
Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
TimeScale = Annotated[float, msgspec.Meta(gt=0)]  # seconds of service time in a real second: 1 in production
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 hash in lower-case hex."""
Mode = Literal["chat", "call"]
"""What a customer pays for."""
Party = Literal["customer", "mitra"]
"""A side of a session, as text."""


@attrs.frozen(kw_only=True)
class Person:
    """One party of a session, with the name that the other party may see."""

    id: Id
    display_name: str | None
