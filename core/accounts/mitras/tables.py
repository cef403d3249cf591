"""Tables of mitras, their presence and its log."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.accounts.mitras.rules import HeartbeatChannel
from core.storage import columns
from core.storage.personal import Erase, Personal

EMPTIED = Personal("sign-in, pushes", "as long as the mitra", Erase.NULL)
REPLACED = Personal(
    "sign-in, names for customers", "as long as the mitra", Erase.BY_HAND, "a placeholder", exported=True
)


class Mitra(Table, tablename="mitras", db=columns.ENGINE):
    """A supporter who chats. Every transaction that adds to a mitra's sessions locks the row."""

    id = columns.identifier(owner=True)
    legacy_uid = columns.string(255, null=True, unique=True, personal=EMPTIED)
    phone = columns.string(20, unique=True, personal=REPLACED)
    display_name = columns.string(100, personal=REPLACED)
    is_active = columns.flag()
    push_token = columns.string(255, null=True, personal=EMPTIED)
    erased_at = columns.moment()
    created_at = columns.created()


class MitraOnlineStatus(Table, tablename="mitra_online_status", db=columns.ENGINE):
    """Whether a mitra is online, when their last heartbeat arrived, and the presence checks of their phone."""

    id = columns.identifier()
    mitra_id = columns.reference("Mitra", unique=True)
    is_online = columns.flag()
    last_online_at = columns.moment()
    last_offline_at = columns.moment()
    last_heartbeat_at = columns.moment()
    heartbeat_channel = columns.string(8, default="any")  # of the last heartbeat since going online, as in the enum
    checked_at = columns.moment()  # when the last presence check was due
    check_ends_at = columns.moment()  # until when a heartbeat answers that check; null: no push was sent
    reachable_at = columns.moment()  # of the last heartbeat within the time of a check
    updated_at = columns.created()

    online_has_heartbeat = Check("NOT is_online OR last_heartbeat_at IS NOT NULL")
    known_channel = columns.words("heartbeat_channel", HeartbeatChannel)


class MitraOnlineLog(Table, tablename="mitra_online_logs", db=columns.ENGINE):
    """One change of a mitra between online and offline."""

    id = columns.identifier()
    mitra_id = columns.reference("Mitra")
    status = columns.string(10)
    timestamp = columns.created()

    known_status = columns.words("status", ("online", "offline"))
