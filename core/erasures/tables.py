"""The tables of erasures and of the hashes of erased identities (docs/privacy.md#erasure)."""

from piccolo.constraints import Unique
from piccolo.table import Table

from core.erasures.rules import RequestedBy
from core.storage import columns
from core.storage.personal import Erase, Personal

ERASED_AGAIN = Personal("which users to erase again after a restored backup", "always", Erase.KEEP)
HASH = Personal(
    "the discount for a first session is given once",
    "always",
    Erase.KEEP,
    "a keyed hash, [see below](#coming-back)",
)


class Erasure(Table, tablename="erasures", db=columns.ENGINE):
    """That the personal data of a user was erased: ids and times only.

    The first transaction erases the identity and signs the user out. Until `completed_at` the jobs process blanks what
    is left. The row stays, because a restored backup brings the data back.
    """

    id = columns.identifier()
    user_type = columns.string(16)
    user_id = columns.plain_id(null=False, personal=ERASED_AGAIN)
    requested_by = columns.string(16)
    began_at = columns.moment(null=False)
    completed_at = columns.moment()

    one_of_a_user = Unique(["user_id"])
    known_user_type = columns.words("user_type", ("customer", "mitra"))
    known_requester = columns.words("requested_by", RequestedBy)


class ErasedIdentity(Table, tablename="erased_identities", db=columns.ENGINE):
    """A keyed hash of a phone or identity whose erased customer had used up the first-session discount.

    It names no customer.
    """

    hash = columns.string_key(64, personal=HASH)
    erased_at = columns.moment(null=False)
