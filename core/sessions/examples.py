"""Sessions, and what belongs to them, as the examples of events and frames show them."""

import datetime as dt

import attrs

from core.base.field_types import ClientMessageId, ExtensionId, Id, MessageId, Person, SessionId
from core.payments.events import AT, PAYMENT_ID
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.views import ExtensionView
from core.sessions.messages.chats import MessageView
from core.sessions.rules import Closure
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.sessions.views import SessionSearchView, SessionView

DEWI = Person(id=Id("019aa4b6-5f00-7000-8000-00000000c001"), display_name="Dewi")
AYU = Person(id=Id("019aa4b6-5f00-7000-8000-00000000a001"), display_name="Ayu")
SESSION_ID = SessionId(Id("019aa4b6-5f00-7000-8000-000000005001"))
MESSAGE_ID = MessageId(Id("019aa4b6-5f00-7000-8000-00000000f001"))
CLIENT_MESSAGE_ID = ClientMessageId("3b241101-e2bb-4255-8caf-4136c566a962")
EXTENSION_ID = ExtensionId(Id("019aa4b6-5f00-7000-8000-00000000ee01"))

ENDS = AT + dt.timedelta(minutes=12)
SEARCHING = SessionView(
    id=SESSION_ID,
    customer=DEWI,
    mitra=None,
    mode="chat",
    status=SessionStatus.SEARCHING,
    topics=["work"],
    topic_sensitivity=Sensitivity.REGULAR,
    duration_minutes=12,
    extended_minutes=0,
    price=12000,
    is_first_session_discount=False,
    created_at=AT - dt.timedelta(seconds=20),
    paired_at=None,
    expires_at=None,
    ended_at=None,
    ended_by=None,
    last_seq=0,
    unread_count=0,
    search=SessionSearchView(
        asked=3,
        answer_by=AT + dt.timedelta(seconds=40),
        ends_at=AT + dt.timedelta(seconds=280),
        payment_request_id=PAYMENT_ID,
    ),
    grace_ends_at=None,
    closures=[],
)
STARTED = attrs.evolve(SEARCHING, mitra=AYU, status=SessionStatus.ACTIVE, search=None, paired_at=AT, expires_at=ENDS)
RUNNING = attrs.evolve(STARTED, last_seq=4, unread_count=1)
RESUMED = attrs.evolve(RUNNING, extended_minutes=30, expires_at=ENDS + dt.timedelta(minutes=30))
GRACE_ENDS = ENDS + dt.timedelta(minutes=5)
EXPIRED = attrs.evolve(RUNNING, status=SessionStatus.EXPIRED, grace_ends_at=GRACE_ENDS)
CLOSED = ENDS + dt.timedelta(seconds=20)
DEWIS = Closure(user_type="customer", message="Terima kasih Kak, aku lega sekarang.", created_at=CLOSED, blanked=False)
AYUS = Closure(
    user_type="mitra", message="Jaga diri, Dewi.", created_at=CLOSED + dt.timedelta(seconds=9), blanked=False
)
CLOSING = attrs.evolve(
    EXPIRED,
    status=SessionStatus.CLOSING,
    ended_at=CLOSED,
    ended_by="customer",
    grace_ends_at=CLOSED + dt.timedelta(minutes=5),
    closures=[DEWIS],
)
COMPLETED = attrs.evolve(
    CLOSING, status=SessionStatus.COMPLETED, ended_at=AYUS.created_at, grace_ends_at=None, closures=[DEWIS, AYUS]
)
MESSAGE = MessageView(
    id=MESSAGE_ID,
    session_id=SESSION_ID,
    seq=4,
    sender_type="customer",
    sender_id=DEWI.id,
    client_message_id=CLIENT_MESSAGE_ID,
    type="text",
    content="Halo Kak, aku butuh teman bicara.",
    metadata=None,
    status="sent",
    created_at=AT,
    delivered_at=None,
    read_at=None,
    blanked=False,
)
EXTENSION = ExtensionView(
    id=EXTENSION_ID,
    session_id=SESSION_ID,
    requested_duration_minutes=30,
    requested_price=27000,
    status=ExtensionStatus.PENDING,
    answer_by=AT + dt.timedelta(seconds=60),
    topic_sensitivity=Sensitivity.REGULAR,
)
