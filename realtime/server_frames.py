"""Which frames the service sends on each path, by type of user.

A frame is declared in realtime/chat_frames.py, realtime/pairing_frames.py or, if both paths have it,
realtime/shared_frames.py. The frames of the hub are built in realtime/outgoing.py, answers by `Connection.answer`.
"""

from core.base.actor import UserType
from realtime import chat_frames, pairing_frames, shared_frames
from realtime.shared_frames import ServerFrame

_BOTH = (shared_frames.AuthExpiring, shared_frames.Pong, shared_frames.Error)
_CHAT = (
    chat_frames.ChatAuthOk,
    chat_frames.MessageAck,
    chat_frames.NewMessage,
    chat_frames.MessageStatus,
    chat_frames.PartyTyping,
    chat_frames.SyncPage,
    chat_frames.SessionWarning,
    chat_frames.SessionStarted,
    chat_frames.SessionExpired,
    chat_frames.SessionResumed,
    chat_frames.SessionClockAdjusted,
    chat_frames.SessionClosing,
    chat_frames.SessionCompleted,
    chat_frames.SessionTopicUpdated,
    chat_frames.ExtensionResolved,
    chat_frames.PeerRenamed,
    chat_frames.PeerAbsent,
    chat_frames.PeerReturned,
    *_BOTH,
)
FRAMES: dict[tuple[str, UserType], tuple[type[ServerFrame], ...]] = {
    ("chat", UserType.CUSTOMER): _CHAT,
    ("chat", UserType.MITRA): (*_CHAT, chat_frames.ExtensionRequested),
    ("pairing", UserType.CUSTOMER): (
        pairing_frames.SearchAuthOk,
        pairing_frames.PairingStatus,
        pairing_frames.PaymentUpdated,
        *_BOTH,
    ),
    ("pairing", UserType.MITRA): (
        pairing_frames.DeskAuthOk,
        pairing_frames.ChatRequestMade,
        pairing_frames.ChatRequestClosed,
        pairing_frames.MitraStatusChanged,
        pairing_frames.Accepted,
        *_BOTH,
    ),
}
