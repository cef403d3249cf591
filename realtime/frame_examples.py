"""One example of every frame, for the AsyncAPI document. The tests send the client frames to a real service."""

import datetime as dt
from typing import Any

import attrs

from core.accounts.mitras.rules import StatusReason
from core.base.field_types import ClientMessageId, ExtensionId, Id, MessageId, PaymentRequestId, Person, SessionId
from core.pairing.views import ChatRequest
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import OperatorAction
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.payments.views import PaymentFailure, PaymentRequestView, PromisedWait
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.views import ExtensionView
from core.sessions.messages.chats import MessageView, OpenSession
from core.sessions.rules import Closure, CreditReason, SessionNotActive
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.sessions.views import SessionSearchView, SessionView
from realtime import frames, server_frames

AT = dt.datetime(2026, 11, 21, 6, 30, 0, 250000, tzinfo=dt.UTC)
DEWI = Person(id=Id("019aa4b6-5f00-7000-8000-00000000c001"), display_name="Dewi")
AYU = Person(id=Id("019aa4b6-5f00-7000-8000-00000000a001"), display_name="Ayu")
SESSION_ID = SessionId(Id("019aa4b6-5f00-7000-8000-000000005001"))
PAYMENT_ID = PaymentRequestId(Id("019aa4b6-5f00-7000-8000-00000000b001"))
CONNECTION_ID = Id("019aa4b6-5f00-7000-8000-00000000d001")
EVENT_ID = Id("019aa4b6-5f00-7000-8000-00000000e001")
EPOCH = "86d9a77de846a836"
DIGEST = "5e2bf57d3f40c4b6df69daf1936cb766f832374b4fc0259a7cbff06e2f70f269"
MESSAGE_ID = MessageId(Id("019aa4b6-5f00-7000-8000-00000000f001"))
CLIENT_MESSAGE_ID = ClientMessageId("3b241101-e2bb-4255-8caf-4136c566a962")
EXTENSION_ID = ExtensionId(Id("019aa4b6-5f00-7000-8000-00000000ee01"))
TOKEN = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjIwMjZhIn0.eyJ0eXAiOiJjdXN0b21lciJ9.c2lnbmF0dXJl"  # noqa: S105 - made up

CLIENT: tuple[frames.Frame, ...] = (
    frames.Auth(token=TOKEN, ref="1"),
    frames.SendMessage(
        session_id=SESSION_ID,
        client_message_id=CLIENT_MESSAGE_ID,
        content="Halo Kak, aku butuh teman bicara.",
        metadata={"reply_to": 3},
        ref="2",
    ),
    frames.Delivered(session_id=SESSION_ID, up_to=4),
    frames.Read(session_id=SESSION_ID, up_to=4),
    frames.Typing(session_id=SESSION_ID, is_typing=True),
    frames.Sync(session_id=SESSION_ID, after=0, ref="3"),
    frames.Ack(event_id=EVENT_ID),
    frames.Ping(ref="4"),
    frames.Accept(session_id=SESSION_ID, ref="5"),
    frames.Reject(session_id=SESSION_ID, ref="6"),
    frames.Heartbeat(),
)


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
REQUEST = ChatRequest(
    session_id=SESSION_ID,
    customer_display_name="Dewi",
    mode="chat",
    topics=["work"],
    topic_sensitivity=Sensitivity.REGULAR,
    duration_minutes=12,
    kind="blast",
    notified_at=AT,
    answer_by=AT + dt.timedelta(seconds=30),
)
OPEN = OpenSession(**attrs.asdict(RUNNING, recurse=False), extension=EXTENSION, peer_absent_since=None)

REFUNDED = PaymentRequestView(
    payment_request_id=PAYMENT_ID,
    status=PaymentStatus.FAILED_PAIRING,
    mode="chat",
    amount=12000,
    duration_minutes=12,
    is_first_session_discount=False,
    is_extension=False,
    targeted_mitra_id=None,
    gateway_invoice_url="https://pay.example.test/web/inv-2026-0001",
    expires_at=AT - dt.timedelta(minutes=5),
    created_at=AT - dt.timedelta(minutes=25),
    confirmed_at=AT - dt.timedelta(minutes=1),
    consumed_at=None,
    session_id=None,
    failure=PaymentFailure(
        cause_tag=CauseTag.PAYMENT_SESSION_EXPIRED,
        operator_action=OperatorAction.REFUNDED,
        actioned_at=AT,
        refund_status=RefundStatus.SUCCEEDED,
    ),
    promised=PromisedWait(p50=40, p90=120, at=AT - dt.timedelta(minutes=25)),
)

_customer = server_frames.User(id=DEWI.id, type="customer")
_mitra = server_frames.User(id=AYU.id, type="mitra")
_known: dict[str, Any] = {
    "connection_id": CONNECTION_ID,
    "epoch": EPOCH,
    "ping_seconds": 25,
    "server_time": AT,
    "ref": "1",
}
_event: dict[str, Any] = {"event_id": EVENT_ID, "server_time": AT}

SERVER: tuple[server_frames.ServerFrame, ...] = (
    server_frames.ChatAuthOk(user=_customer, sessions=[OPEN], **_known),
    server_frames.MessageAck(
        client_message_id=CLIENT_MESSAGE_ID, id=MESSAGE_ID, seq=4, created_at=AT, server_time=AT, ref="2"
    ),
    server_frames.NewMessage(message=MESSAGE, event_id=MESSAGE_ID, server_time=AT),
    server_frames.MessageStatus(session_id=SESSION_ID, status="read", up_to=4, at=AT, server_time=AT),
    server_frames.PartyTyping(session_id=SESSION_ID, is_typing=True, server_time=AT),
    server_frames.SyncPage(
        session_id=SESSION_ID,
        messages=[MESSAGE],
        last_seq=4,
        more=False,
        epoch=EPOCH,
        digest=DIGEST,
        blanked=False,
        server_time=AT,
        ref="3",
    ),
    server_frames.SessionWarning(session_id=SESSION_ID, seconds_left=180, expires_at=ENDS, **_event),
    server_frames.SessionStarted(session=STARTED, **_event),
    server_frames.SessionExpired(session=EXPIRED, **_event),
    server_frames.SessionResumed(session=RESUMED, extension_id=EXTENSION_ID, **_event),
    server_frames.SessionClockAdjusted(session=RESUMED, added_seconds=90, reason=CreditReason.REALTIME, **_event),
    server_frames.SessionClosing(session=CLOSING, **_event),
    server_frames.SessionCompleted(session=COMPLETED, **_event),
    server_frames.SessionTopicUpdated(session_id=SESSION_ID, topic_sensitivity=Sensitivity.SENSITIVE, **_event),
    server_frames.ExtensionRequested(extension=EXTENSION, **_event),
    server_frames.ExtensionResolved(extension=attrs.evolve(EXTENSION, status=ExtensionStatus.APPROVED), **_event),
    server_frames.PeerRenamed(session_id=SESSION_ID, display_name="Dewi", **_event),
    server_frames.PeerAbsent(session_id=SESSION_ID, user_type="mitra", since=AT - dt.timedelta(minutes=2), **_event),
    server_frames.PeerReturned(session_id=SESSION_ID, user_type="mitra", **_event),
    server_frames.SearchAuthOk(user=_customer, searching=SEARCHING, **_known),
    server_frames.PairingStatus(
        payment_request_id=PAYMENT_ID,
        session_id=SESSION_ID,
        status="failed",
        topic_sensitivity=Sensitivity.REGULAR,
        cause_tag=CauseTag.NO_MITRA_AVAILABLE,
        **_event,
    ),
    server_frames.PaymentUpdated(payment_request=REFUNDED, **_event),
    server_frames.DeskAuthOk(user=_mitra, requests=[REQUEST], **_known),
    server_frames.ChatRequestMade(request=REQUEST, **_event),
    server_frames.ChatRequestClosed(
        session_id=SESSION_ID, topic_sensitivity=Sensitivity.REGULAR, reason="taken", **_event
    ),
    server_frames.MitraStatusChanged(is_online=False, reason=StatusReason.STALE, **_event),
    server_frames.Accepted(session=STARTED, server_time=AT, ref="5"),
    server_frames.AuthExpiring(at=AT + dt.timedelta(seconds=60), server_time=AT),
    server_frames.Pong(server_time=AT, ref="4"),
    server_frames.Error(
        code=SessionNotActive.code,
        message="The message was not stored.",
        server_time=AT,
        ref="2",
    ),
)
