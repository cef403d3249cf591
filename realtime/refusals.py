"""The codes of `error` frames: those of frames that can't be read, and those of the errors that commands raise."""

from core.accounts.mitras.rules import MitraAtCapacity, MitraOffline
from core.base.errors import Forbidden, NotFound, Unavailable, ValidationFailed
from core.pairing.rules import RequestClosed, RequestTaken
from core.sessions.messages.rules import TooFast
from core.sessions.rules import SessionNotActive
from realtime.frames import INVALID_FRAME, UNKNOWN_TYPE

ERRORS = (
    Forbidden,
    NotFound,
    Unavailable,
    ValidationFailed,
    TooFast,
    MitraAtCapacity,
    MitraOffline,
    RequestClosed,
    RequestTaken,
    SessionNotActive,
)
CODES = frozenset({INVALID_FRAME, UNKNOWN_TYPE, *(error.code for error in ERRORS)})
