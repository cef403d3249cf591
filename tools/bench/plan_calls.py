"""Calls of every read and store function of core with typical arguments, to watch their statements.

Arguments are chosen by the function's signature: by the argument's name (`TYPICAL`, values from the database), or else
by its type. So a new function is watched automatically, unless it has an unknown argument; then the call fails and
names it. One function may be called in several forms, such as with a filter or for the next page: see
tools/bench/plan_forms.py.
"""

import datetime as dt
import enum
import importlib
import inspect
import pathlib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.mitras.rules import availability_policy
from core.base import id_ranges, ids
from core.base.actor import Actor, UserType
from core.base.field_types import Id
from core.base.pages import Page
from core.cluster.outages.rules import OutageKind
from core.config.keys import KEYS
from core.idempotency.rules import KeyedRequest
from core.pairing.check_presence import check_policy
from core.pairing.promises.rules import hour_of, same_hours
from core.pairing.rules import Asking, Wave, Waves
from core.runtime import background
from core.runtime.container import Runtime
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.messages.rules import Draft, ReadMarkers
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.database import Database
from core.storage.transaction import Reader, Tx
from tools.bench.plan_watch import WatchedDatabase

CORE = pathlib.Path(__file__).parents[2] / "core"
# Modules whose functions run statements, by their last names. Use cases call these, apart from READS and EXTRA.
ASKING = (
    "store",
    "roles",
    "transitions",
    "admin_store",
    "views",
    "codes",
    "unacknowledged",
    "push_tokens",
    "blanking",
    "time_credits",
    "trail",
    "digests",
)
# Further modules whose functions are watched: use cases that read.
READS = {
    "accounts.app_settings",
    "accounts.logins.callers",
    "accounts.logins.list_devices",
    "desk.activity",
    "desk.audit_log",
    "desk.configuration",
    "desk.disclosure",
    "desk.failed_pairings",
    "desk.figures",
    "desk.newest_first",
    "desk.people",
    "desk.reports",
    "desk.support",
    "desk.timed_work",
    "desk.timeline.entries",
    "desk.timeline.timeline",
    "desk.trial",
    "desk.webhook_calls",
    "pairing.catalogue",
    "pairing.check_presence",
    "payments.pricing.views",
    "payments.show",
    "privacy.export",
    "sessions.histories",
    "sessions.messages.blank",
    "sessions.messages.chats",
    "sessions.own_lists",
    "sessions.own_session",
}
EXTRA = (background.read_changes,)
# Functions that are not called, with the reason.
LEFT_OUT = {
    "core.accounts.mitras.store.check_mitra": "runs the statement of `presence`",
    "core.accounts.mitras.store.check_any": "runs the statement of `any_free`",
    "core.desk.disclosure.one": "writes an audit row, with operators.audit",
    "core.desk.disclosure.several": "writes an audit row, with operators.audit",
    "core.desk.support.fitting": "the lists of core.desk.support run its query",
    "core.desk.support.named": "the lists of core.desk.support run its query",
    "core.desk.support.accounts_named": "the lists of core.desk.support run its query",
    "core.desk.disclosure.note_sessions": "runs no query; `support.sessions` covers the audit row that it writes",
    "core.desk.people.shown_to": "runs no query; `customers` covers the audit row that it writes",
    "core.pairing.check_presence.ask_silent": "runs the statements of core.pairing.check_presence and of pushes",
    "core.privacy.export.begin_own": "writes, with customers.begin_export",
    "core.privacy.export.note_export": "writes an audit row, with operators.audit",
    "core.privacy.export.operator_named": "its query is operators.by_email",
    "core.sessions.own_session.get": "runs no query; core.sessions.store has it",
    "core.sessions.own_session.lock": "runs no query; core.sessions.store has it",
    "core.accounts.logins.callers.authenticate": "needs a signed token; its queries are operators.get and customers.ids_of",
}
# Functions whose caller is a mitra; the default is a customer.
MITRA = {"chat_requests", "mitra_status", "mitra_history"}
OPERATOR = {
    "customers", "customer_for_operator", "require_step_up", "webhook_call", "webhook_calls", "replayed_call",
    "core.desk.configuration.row", "core.desk.configuration.rows", "core.desk.support.session", "core.desk.support.sessions",
    "failed_pairing", "failed_pairings", "timeline", "audit_log", "has_stepped_up",
}  # fmt: skip
# Typical values from the database: a customer with many sessions and their latest one, the busiest mitra, and so on.
TYPICAL = """WITH s AS (SELECT * FROM chat_sessions WHERE status = 'completed' AND last_seq > 5 AND customer_id = (
      SELECT customer_id FROM chat_sessions GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1) ORDER BY created_at DESC LIMIT 1),
    live AS ((SELECT * FROM chat_sessions WHERE status = 'active' ORDER BY created_at DESC LIMIT 1)
      UNION ALL (SELECT * FROM chat_sessions WHERE mitra_id IS NOT NULL ORDER BY created_at DESC LIMIT 1) LIMIT 1)
  SELECT s.id AS session_id, s.customer_id, s.payment_request_id, live.id AS active_id, live.customer_id AS active_customer_id, live.mitra_id AS active_mitra_id,
    coalesce((SELECT id FROM chat_sessions WHERE status = 'searching' ORDER BY created_at LIMIT 1), s.id) AS searching_id,
    (SELECT mitra_id FROM chat_sessions WHERE mitra_id IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1) AS mitra_id,
    (SELECT id FROM chat_messages WHERE session_id = s.id ORDER BY seq DESC LIMIT 1) AS message_id,
    (SELECT event_id FROM delivery_trail ORDER BY event_id DESC LIMIT 1) AS event_id,
    (SELECT id FROM session_extensions ORDER BY id DESC LIMIT 1) AS extension_id,
    (SELECT id FROM pairing_failures ORDER BY operator_action NULLS FIRST, created_at LIMIT 1) AS failure_id,
    (SELECT id FROM control_center_users ORDER BY created_at LIMIT 1) AS operator_id, (SELECT id FROM roles LIMIT 1) AS role_id,
    (SELECT id FROM webhook_logs ORDER BY received_at DESC LIMIT 1) AS log_id,
    (SELECT id FROM otp_requests ORDER BY id DESC LIMIT 1) AS otp_request_id, (SELECT phone FROM otp_requests ORDER BY id DESC LIMIT 1) AS phone,
    (SELECT id FROM auth_sessions WHERE revoked_at IS NULL AND push_token IS NOT NULL ORDER BY id DESC LIMIT 1) AS auth_session_id,
    (SELECT push_token FROM auth_sessions WHERE revoked_at IS NULL AND push_token IS NOT NULL ORDER BY id DESC LIMIT 1) AS push_token,
    (SELECT id FROM pricing_tiers LIMIT 1) AS tier_id, (SELECT id FROM pricing_promotions LIMIT 1) AS promotion_id,
    (SELECT gateway_invoice_id FROM payment_requests WHERE id = s.payment_request_id) AS invoice_id,
    (SELECT id FROM customers WHERE is_anonymous AND account_belongs_to IS NULL ORDER BY id DESC LIMIT 1) AS anonymous_id,
    ARRAY(SELECT customer_id::text FROM chat_sessions WHERE customer_id IS NOT NULL ORDER BY created_at DESC LIMIT 200) AS many_customers,
    ARRAY(SELECT mitra_id::text FROM mitra_online_status WHERE is_online ORDER BY mitra_id LIMIT 200) AS many_mitras
  FROM s, live"""


class NoArgument(Exception):
    """An argument has no typical value; the message names it."""


@attrs.frozen(kw_only=True)
class PlannedCall:
    """One form of a call; `with_` replaces the typical arguments."""

    function: Callable[..., Any]
    form: str = ""
    with_: dict[str, Any] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """Return the function with its module, and the form."""
        plain = f"{self.function.__module__}.{self.function.__name__}"
        return f"{plain} ({self.form})" if self.form else plain


class Caller:
    """Call functions with values that are typical in a database."""

    def __init__(self, runtime: Runtime, database: WatchedDatabase, tx: Tx, found: dict[str, Any]) -> None:
        now = runtime.now()
        self.many: dict[UserType, list[str]] = {
            UserType.CUSTOMER: found.pop("many_customers"),
            UserType.MITRA: found.pop("many_mitras"),
        }
        text = {name: str(value) for name, value in found.items() if value is not None}
        self.now = now
        self.by_type = {Runtime: runtime, Database: database, Tx: tx, Reader: database}
        self.customer = self._actor(UserType.CUSTOMER, Id(text["customer_id"]))
        self.mitra = self._actor(UserType.MITRA, Id(text["mitra_id"]))
        self.operator = self._actor(UserType.OPERATOR, Id(text["operator_id"]))
        self.text = text
        self.by_name: dict[str, Any] = {
            **text,
            "user_id": text["customer_id"],
            "account_id": text["active_customer_id"],
            "targeted_mitra_id": text["mitra_id"],
            "resource_id": text["session_id"],
            "push_id": ids.new_id(),
            "auth_session_ids": [text["auth_session_id"]],
            "erasure_id": ids.new_id(),
            "refund_id": ids.new_id(),
            "gateway_refund_id": "rfd-1",
            "refund_ids": [ids.new_id()],
            "due": dt.timedelta(hours=24),
            "node": ids.new_id(),
            "customer_ids": [text["customer_id"]],
            "party_ids": [text["customer_id"]],
            "kinds": [OutageKind.DATABASE, OutageKind.REALTIME],
            "interval": (self.now - dt.timedelta(minutes=12), self.now),
            "intervals": same_hours(hour_of(now), now=now, longest=dt.timedelta(minutes=5)),
            "hour": hour_of(now),
            "asked": [f"{text['session_id']} {text['customer_id']}"],
            "recipient_ids": [text["customer_id"]],
            "recipient_id": text["mitra_id"],
            "event": "mitra_status_changed",
            "session_ids": [text["session_id"], text["active_id"]],
            "mitra_ids": [text["mitra_id"], text["active_mitra_id"]],
            "account": [text["customer_id"]],
            "absence_ids": [ids.new_id()],
            "event_ids": [ids.new_id()],
            "tier_ids": [text["tier_id"]],
            "invoice_ids": [text["invoice_id"]],
            "request_ids": [text["payment_request_id"]],
            "statuses": ["active", "expired", "closing"],
            "policy": availability_policy(runtime.config),
            "waves": Waves(size=100, length=dt.timedelta(seconds=10)),
            "identity": Identity(kind=IdentityKind.PHONE, value=text["phone"]),
            "key": KEYS["max_customers_per_mitra"],
            "name": "Dewi",
            "connection": database.watch,
            "runner": database.watch,
            "keyed": KeyedRequest(user_id=text["customer_id"], key="a-key", fingerprint="a-body"),
            "object_id": text["failure_id"],
            "but": text["session_id"],
            "ip_address": "10.1.2.9",
            "email": "grown-1@example.test",
            "digest": "0" * 64,
            "key_id": "2026a",
            "mode": "chat",
            "user_type": "customer",
            "kind": "updated",
            "ended_by": "customer",
            "cause_tag": "no_mitra_available",
            "channel": "sms",
            "limit": 500,
            "older_than_s": 30.0,
            "within_s": 3600.0,
            "real_seconds": 10.0,
            "scale": 1.0,
            "back_s": 60.0,
            "page": Page(),
            "value": 3,
            "since": now - dt.timedelta(hours=1),
            "begin_id": id_ranges.since(now - dt.timedelta(days=30)),
            "end_id": id_ranges.until(now - dt.timedelta(days=7)),
            "until": None,
        }

    def _actor(self, kind: UserType, user_id: Id) -> Actor:
        return Actor(
            user_type=kind, user_id=user_id, auth_session_id=ids.new_id(), expires_at=2**31, ids=(user_id,), permissions={"*": "write"},
            has_totp=kind is UserType.OPERATOR,
        )  # fmt: skip

    def _forms(self, further: Iterable[PlannedCall]) -> dict[str, list[PlannedCall]]:
        """Return the forms of each function by its name: `further`, and those of writes that need other arguments."""
        from core.accounts.customers import store as customers
        from core.accounts.logins import codes
        from core.accounts.logins import store as logins_store
        from core.cluster.outages import store as outages
        from core.config import store as config_store
        from core.deliveries import store as deliveries
        from core.deliveries import trail
        from core.deliveries.pushes import store as pushes
        from core.deliveries.stages import TrailMark, TrailStage
        from core.desk import configuration
        from core.events.notices import Notice
        from core.pairing import check_presence, views
        from core.pairing import store as pairing
        from core.payments.webhooks import store as webhooks
        from core.sessions import store as sessions
        from core.sessions import transitions as session_transitions
        from core.sessions.absences import store as absences
        from core.sessions.clock import store
        from core.sessions.extensions import transitions as extension_transitions
        from core.sessions.messages import store as messages

        text, searching = self.text, self.text["searching_id"]
        draft = Draft(
            id=ids.new_id(), session_id=text["active_id"], sender_id=text["active_customer_id"], client_message_id=ids.new_id(),
            type="text", content="Halo", metadata=None,
        )  # fmt: skip
        second = msgspec.structs.replace(draft, id=ids.new_id(), client_message_id=ids.new_id())
        mark_read = ReadMarkers(customer_read=1)
        new = {**self.session_fields(), "id": ids.new_id(), "status": SessionStatus.SEARCHING}
        notice = Notice(
            event_id=ids.new_id(), recipient_id=text["customer_id"], recipient_type="customer", event="session_started",
            session_id=text["session_id"], payload="{}",
        )  # fmt: skip
        device = text["auth_session_id"]
        ack = deliveries.EventAck(event_id=text["event_id"], recipient_id=text["customer_id"], device_id=device)
        mark = TrailMark(event_id=text["event_id"], auth_session_id=device, stage=TrailStage.SENT, at=self.now)
        # The mitras of a database that was grown a while ago have no fresh heartbeat.
        silent = check_policy(self.by_type[Runtime].config, cadence_s=30)
        of_silent = attrs.evolve(self.by_name["policy"], require_ping=False)
        stranger = Identity(kind=IdentityKind.PHONE, value="+628000000001")
        planned = pushes.Planned(
            auth_session_id=text["auth_session_id"], push_token=text["push_token"], content={}, urgent=True, ttl=dt.timedelta(minutes=1)
        )  # fmt: skip
        code = codes.OtpRequest(
            id=text["otp_request_id"], phone=text["phone"], user_type="customer", code_hash=None, provider_reference=None,
            attempts=0, used_at=None, created_at=self.now, expires_at=self.now, may_be_sent=False,
        )  # fmt: skip
        a_wave = Asking(wave=Wave(number=1, ends_at=self.now), at_most=100)
        usual: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
            *(
                (messages.commit, {"drafts": drafts, "marks": {text["active_id"]: mark_read}, "anchor": self.now})
                for drafts in ([draft], [draft, second])
            ),
            (messages.sync_statuses, {"after": {text["active_id"]: 0}}),
            (absences.see, {"signs": {text["active_customer_id"]: self.now}}),
            (deliveries.add, {"notices": [notice]}),
            (deliveries.acknowledge, {"acks": [ack]}),
            (trail.add, {"db": self.by_type[Database], "marks": [mark]}),
            (pushes.add, {"planned": [planned]}),
            (configuration.row, {"name": "max_customers_per_mitra"}),
            (config_store.values_before, {"row": "retention_otp_days", "since": self.now - dt.timedelta(days=1)}),
            (session_transitions.create, {"session": Session(**new)}),
            (session_transitions.pair, {"session_id": searching}),
            (session_transitions.end_search, {"session_id": searching, "status": SessionStatus.FAILED}),
            (session_transitions.begin_closing, {"session_id": text["active_id"], "before": SessionStatus.ACTIVE}),
            (extension_transitions.create, {"status": ExtensionStatus.PENDING, "session_id": text["active_id"]}),
            (pairing.invite, {"session_id": searching, "policy": of_silent}),
            (pairing.invite, {"session_id": searching, "policy": of_silent, "asking": a_wave}),
            (pairing.close_open, {"session_id": searching}),
            (pairing.tally, {"session_id": searching}),
            (check_presence.next_due, {"policy": silent}),
            (check_presence.claim, {"policy": silent}),
            (check_presence.pass_over, {"policy": silent}),
            (views.of_session, {"session_id": searching}),
            (customers.create_anonymous, {"customer_id": ids.new_id()}),
            (customers.create_known, {"customer_id": ids.new_id(), "identity": stranger}),
            (customers.upgrade, {"customer_id": text["anonymous_id"], "identity": stranger}),
            (
                session_transitions.create_completed,
                {"session_id": ids.new_id(), "began_at": self.now - dt.timedelta(hours=1), "ended_at": self.now},
            ),
            (
                store.add,
                {"outage_id": ids.new_id(), "began_at": self.now - dt.timedelta(minutes=1), "most": None},
            ),
            (
                store.losing,
                {"outage_id": ids.new_id(), "began_at": self.now - dt.timedelta(minutes=1), "ended_at": self.now},
            ),
            (outages.credited, {"outage_id": ids.new_id()}),
            (sessions.held_after, {"after": self.now}),
            (sessions.set_sensitivity, {"before": "regular", "after": "sensitive"}),
            (extension_transitions.resolve, {"status": ExtensionStatus.REJECTED}),
            (logins_store.create_auth_session, {"auth_session_id": ids.new_id()}),
            (codes.create, {"otp_request_id": ids.new_id()}),
            (webhooks.forget_late, {"call_id": ids.new_id()}),
            (codes.use, {"locked": codes.Locked(named=code, living=(code,))}),
            (logins_store.revoke, {"auth_session_id": None, "user_id": text["customer_id"]}),
        )
        forms: dict[str, list[PlannedCall]] = {}
        for function, with_ in usual:
            call = PlannedCall(function=function, with_=with_)
            forms.setdefault(call.name, []).append(call)
        for call in further:
            forms.setdefault(f"{call.function.__module__}.{call.function.__name__}", []).append(call)
        return forms

    def session_fields(self) -> dict[str, Any]:
        """Return typical attributes of a session."""
        return {field.name: self.value(field.name, hint) for field, hint in _fields(Session)}

    def calls(self, further: Iterable[PlannedCall]) -> Iterator[PlannedCall]:
        """Yield every function's calls: the usual form and the `further` ones (tools/bench/plan_forms.py)."""
        forms = self._forms(further)
        for function in (*functions(), *EXTRA):
            name = f"{function.__module__}.{function.__name__}"
            if name in LEFT_OUT:
                continue
            found = forms.get(name, [])
            if not any(call.form == "" for call in found):
                yield PlannedCall(function=function)
            yield from found

    async def make(self, call: PlannedCall) -> None:
        """Make a call. Raises NoArgument."""
        hints = typing.get_type_hints(call.function)
        positional, named = [], {}
        for parameter in inspect.signature(call.function).parameters.values():
            if parameter.name in call.with_:
                value = call.with_[parameter.name]
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= {"enabled": True} if "promotion" in call.name else {"tag": "new"}
                continue
            elif parameter.name == "self":
                value = self.by_type[Runtime]
            elif parameter.name == "actor":
                value = self.who(call.function)
            elif parameter.default is not parameter.empty and parameter.name not in self.by_name:
                value = parameter.default
            else:
                value = self.value(parameter.name, hints.get(parameter.name, Any))
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        await call.function(*positional, **named)

    def who(self, function: Callable[..., Any]) -> Actor:
        """Return the caller of a function."""
        if function.__name__ in MITRA:
            return self.mitra
        names = {function.__name__, f"{function.__module__}.{function.__name__}"}
        return self.operator if names & OPERATOR else self.customer

    def value(self, name: str, hint: Any) -> Any:
        """Return a typical value of an argument. Raises NoArgument."""
        if name in self.by_name:
            return self.by_name[name]
        if types.NoneType in typing.get_args(hint):
            return None
        if hint in self.by_type:
            return self.by_type[hint]
        plain = {
            str: "x",
            int: 5,
            float: 1.0,
            bool: False,
            bytes: b"{}",
            dt.datetime: self.now,
            dt.timedelta: dt.timedelta(minutes=5),
            Any: {},
        }
        if hint in plain and not name.endswith(("_id", "_ids")):
            return plain[hint]
        if typing.get_origin(hint) in (dict, Mapping, list, Sequence):
            return {} if typing.get_origin(hint) in (dict, Mapping) else []
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return next(iter(hint))
        if isinstance(hint, type) and attrs.has(hint):
            given = {field.name: self.value(field.name, of) for field, of in _fields(hint)}
            return hint(**({**given, "id": ids.new_id()} if "id" in given else given))
        raise NoArgument(f"{name}: {hint}: add its typical value to tools.bench.plan_calls")


def _fields(cls: type) -> Iterator[tuple[Any, Any]]:
    hints = typing.get_type_hints(cls)
    for field in attrs.fields(cls):
        if field.init and field.default is attrs.NOTHING:
            yield field, str if field.name == "id" else hints[field.name]


def functions() -> Iterator[Callable[..., Any]]:
    """Yield every public function that runs statements: of the reads, and of the modules that own tables.

    The audit is not among them, because it reads all rows on purpose.
    """
    for path in sorted(CORE.rglob("*.py")):
        name = ".".join(path.relative_to(CORE).with_suffix("").parts)
        if name not in READS and path.stem not in ASKING:
            continue
        module = importlib.import_module(f"core.{name}")
        for public, function in vars(module).items():
            if inspect.iscoroutinefunction(function) and function.__module__ == module.__name__ and public[0] != "_":
                yield function
