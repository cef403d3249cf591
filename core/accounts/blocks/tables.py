"""The table of blocks between a customer and a mitra."""

from piccolo.constraints import Unique
from piccolo.table import Table

from core.base.field_types import Party
from core.storage import columns
from core.storage.personal import Erase, Personal

BLOCKED = Personal("a customer and a mitra who are never paired again", "until it is lifted", Erase.ROW, exported=True)


class Block(Table, tablename="blocks", db=columns.ENGINE):
    """One party of earlier sessions has blocked the other one. Both may have blocked each other.

    `customer_id` is always an account: the blocks of an anonymous customer who joins one move to it.
    """

    id = columns.identifier()
    customer_id = columns.reference("Customer", owner=True)
    mitra_id = columns.reference("Mitra")
    blocked_by = columns.string(10, personal=BLOCKED)
    session_id = columns.plain_id(null=False)  # the session in which it was made
    holds_since = columns.moment(null=False)  # later than `created_at` if it moved to the account
    created_at = columns.created()

    once = Unique(["customer_id", "mitra_id", "blocked_by"])
    known_party = columns.words("blocked_by", Party)
