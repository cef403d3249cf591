"""Write the generated parts of docs/product.md: the state machines and the fixed constants.

The edges come from `core/*/states.py`, or from the enum of the values if a machine has no table. The meaning of each
state, and the cause and actor of each transition, are written here. A test checks that both have the same states and
edges.
"""

import datetime as dt
import enum
import pathlib
import re
from collections.abc import Iterable

import attrs

from core.customers.store import JOINS_A_DAY
from core.extensions import states as extensions
from core.extensions.states import ExtensionStatus as E
from core.flows import delivery, session_end
from core.idempotency import rules as idempotency
from core.logins import identity, otp, refresh
from core.messages import rules as messages
from core.operators import login_token, totp
from core.pairing.rules import REPEAT_AFTER
from core.pairing.rules import Response as R
from core.pairing_failures.rules import OperatorAction as A
from core.payments import rules as payment_rules
from core.payments import states as payments
from core.payments.states import PaymentStatus as P
from core.sessions import rules as session_rules
from core.sessions import states as sessions
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus as S
from jobs.schedule import SWEEPS

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "product.md"
START = "[*]"  # Mermaid's name for the beginning and the end of a diagram

Edge = tuple[str, str]


@attrs.frozen(kw_only=True)
class Machine:
    """One state machine of the page.

    `edges`: the transitions that the code allows. `states`: the meaning of each state. `causes`: pairs of (event,
    actor) for each edge. An edge from START is the creation of the object.
    """

    name: str
    edges: frozenset[Edge]
    states: dict[str, str]
    causes: dict[Edge, list[tuple[str, str]]]


def _edges(table: Iterable[tuple[enum.StrEnum, enum.StrEnum]]) -> frozenset[Edge]:
    return frozenset((before.value, after.value) for before, after in table)


def _from_open(values: type[enum.StrEnum]) -> frozenset[Edge]:
    """Return the edges of a machine that goes from `open` to one of these values."""
    return frozenset(("open", value.value) for value in values)


PAYMENT_REQUEST = Machine(
    name="payment request",
    edges=_edges(payments.EDGES),
    states={
        P.PENDING: "The service waits for the money.",
        P.CONFIRMED: "The money is there. A mitra is being searched for, or the mitra is asked to extend the session.",
        P.CONSUMED: "The money is earned: it bought a chat, or more minutes of one.",
        P.FAILED_PAIRING: "The money is there, but no chat came of it. It has one live pairing failure.",
        P.ABANDONED: "The customer gave the request up before the money came.",
        P.EXPIRED: "The payment did not arrive in time.",
    },
    causes={
        (START, P.PENDING): [("A payment request is created.", "customer")],
        (P.PENDING, P.CONFIRMED): [
            ("The gateway reports the payment, by its webhook or when it is asked.", "gateway"),
            ("The price is 0: the request is confirmed in the transaction that creates it.", "customer"),
            ("An operator confirms the payment by hand.", "operator"),
        ],
        (P.PENDING, P.ABANDONED): [
            ("The customer abandons or cancels it, asks for another one, or falls back to a blast.", "customer"),
            ("The gateway does not make the invoice.", "gateway"),
            (
                "An extension: its session starts closing or is completed, or its mitra is deactivated.",
                "customer, mitra, operator or jobs process",
            ),
        ],
        (P.PENDING, P.EXPIRED): [
            ("`expires_at` has passed; a sweep looks every 60 s.", "jobs process"),
            ("The gateway reports that the invoice has expired.", "gateway"),
        ],
        (P.PENDING, P.FAILED_PAIRING): [
            ("The money comes, but the customer has a live session or another paid request.", "gateway or operator"),
            ("The money comes, but the first-session discount was used elsewhere.", "gateway or operator"),
        ],
        (P.CONFIRMED, P.CONSUMED): [
            ("A mitra accepts the chat request, or approves the extension.", "mitra"),
            ("The mitra does not answer the extension in time, and silence approves.", "jobs process"),
        ],
        (P.CONFIRMED, P.FAILED_PAIRING): [
            ("The search fails.", "jobs process or mitra"),
            ("The search is cancelled.", "customer or operator"),
            ("The extension is rejected, or its safeguard trips.", "mitra, jobs process or operator"),
            ("When the search is to begin, the customer's account has a live session.", "api or jobs process"),
        ],
        (P.EXPIRED, P.CONFIRMED): [
            ("The money was paid at most 60 s after `expires_at`, and is reported later.", "gateway")
        ],
        (P.EXPIRED, P.FAILED_PAIRING): [
            ("The money was paid later than that.", "gateway"),
            ("It was paid in time, but no session may start.", "gateway"),
        ],
        (P.ABANDONED, P.FAILED_PAIRING): [("The money comes after all.", "gateway")],
        (P.FAILED_PAIRING, P.CONFIRMED): [
            ("The customer falls back from a targeted request to a blast.", "customer"),
        ],
    },
)

SESSION = Machine(
    name="chat session",
    edges=_edges(sessions.EDGES),
    states={
        S.SEARCHING: "Mitras are being asked.",
        S.ACTIVE: "The paid time runs and messages flow.",
        S.EXPIRED: "The paid time is over. The chat is frozen; an extension or a goodbye is possible.",
        S.CLOSING: "A party or an operator has ended the chat. Both parties may say goodbye.",
        S.COMPLETED: "The session is over.",
        S.CANCELLED: "The search was cancelled before a mitra accepted.",
        S.FAILED: "The search found no mitra.",
    },
    causes={
        (START, S.SEARCHING): [("A payment request is confirmed, and it is not an extension.", "api or jobs process")],
        (S.SEARCHING, S.ACTIVE): [("A mitra accepts. The first one wins.", "mitra")],
        (S.SEARCHING, S.CANCELLED): [
            ("The customer cancels the search.", "customer"),
            ("An operator ends it.", "operator"),
        ],
        (S.SEARCHING, S.FAILED): [
            ("The search's time is over, or the targeted mitra has not answered in time.", "jobs process"),
            ("The targeted mitra rejects, or every mitra asked has rejected and no other is eligible.", "mitra"),
            ("The targeted mitra goes offline.", "mitra, operator or jobs process"),
            ("The targeted mitra is offline or full when the search begins.", "api or jobs process"),
        ],
        (S.ACTIVE, S.EXPIRED): [("`expires_at` has passed.", "jobs process")],
        (S.ACTIVE, S.CLOSING): [
            ("A party ends the session early, if the switch for their side is on.", "customer or mitra"),
            ("An operator ends it.", "operator"),
        ],
        (S.EXPIRED, S.ACTIVE): [
            ("An extension is approved.", "mitra"),
            ("The mitra does not answer it in time, and silence approves.", "jobs process"),
        ],
        (S.EXPIRED, S.CLOSING): [
            ("A party ends the session or says goodbye.", "customer or mitra"),
            ("An operator ends it.", "operator"),
        ],
        (S.EXPIRED, S.COMPLETED): [
            ("5 minutes have passed since `expires_at`, and no extension is pending.", "jobs process")
        ],
        (S.CLOSING, S.COMPLETED): [
            ("The second goodbye is said.", "customer or mitra"),
            ("5 minutes have passed since the session started closing.", "jobs process"),
        ],
    },
)

EXTENSION = Machine(
    name="extension",
    edges=_edges(extensions.EDGES),
    states={
        E.PENDING: "The mitra is asked.",
        E.APPROVED: "The mitra has approved. The money is earned.",
        E.AUTO_APPROVED: "The mitra did not answer in time, and silence approves. The money is earned.",
        E.REJECTED: "The mitra has rejected, or did not answer in time and silence rejects.",
        E.SAFEGUARD_TRIPPED: "The session can no longer be extended. No money is earned.",
    },
    causes={
        (START, E.PENDING): [("The payment request of an extension is confirmed.", "api or jobs process")],
        (START, E.SAFEGUARD_TRIPPED): [
            (
                "It is confirmed, but the session is over or the mitra is deactivated: the mitra is not asked.",
                "api or jobs process",
            )
        ],
        (E.PENDING, E.APPROVED): [("The mitra approves.", "mitra")],
        (E.PENDING, E.AUTO_APPROVED): [
            ("`answer_by` passes, and `extension_default_action_on_timeout` is `auto_approve`.", "jobs process")
        ],
        (E.PENDING, E.REJECTED): [
            ("The mitra rejects.", "mitra"),
            ("`answer_by` passes, and `extension_default_action_on_timeout` is `reject`.", "jobs process"),
        ],
        (E.PENDING, E.SAFEGUARD_TRIPPED): [
            ("The session starts closing.", "customer, mitra or operator"),
            ("The mitra is deactivated.", "operator"),
        ],
    },
)

INVITATION = Machine(
    name="invitation",
    edges=_from_open(R),
    states={
        "open": "The mitra may answer until `answer_by`. The stored response is null.",
        R.ACCEPTED: "This mitra has the session.",
        R.REJECTED: "The mitra has rejected, and is not asked again for this session.",
        R.MISSED: "Another mitra has already accepted.",
        R.IGNORED: "The mitra did not answer in time or went offline. They may be asked again in the next round.",
        R.CANCELLED: "The customer has left, or asks all mitras instead.",
    },
    causes={
        (START, "open"): [("The mitra is eligible when a round begins, or becomes eligible while it runs.", "service")],
        ("open", R.ACCEPTED): [("The mitra accepts.", "mitra")],
        ("open", R.REJECTED): [("The mitra rejects.", "mitra")],
        ("open", R.MISSED): [("Another mitra accepts.", "mitra")],
        ("open", R.IGNORED): [
            ("The round or the search ends without an answer.", "jobs process"),
            ("The mitra goes offline.", "mitra, operator or jobs process"),
        ],
        ("open", R.CANCELLED): [
            ("The customer cancels the search, or falls back to a blast.", "customer"),
            ("An operator ends the search.", "operator"),
        ],
    },
)

PRESENCE = Machine(
    name="mitra",
    edges=frozenset({("offline", "online"), ("online", "offline")}),
    states={
        "offline": "The mitra gets no chat requests. Running sessions go on.",
        "online": "The mitra gets chat requests while they have room and their heartbeat is fresh.",
    },
    causes={
        (START, "offline"): [("An operator adds the mitra.", "operator")],
        ("offline", "online"): [("The mitra goes online. Only an active mitra can.", "mitra")],
        ("online", "offline"): [
            ("The mitra goes offline.", "mitra"),
            (
                "No heartbeat for `mitra_stale_after_seconds`, while `require_mitra_ping` is on.",
                "jobs process",
            ),
            ("An operator takes the mitra offline, or deactivates them.", "operator"),
        ],
    },
)

SENSITIVITY = Machine(
    name="topic sensitivity",
    edges=frozenset((a.value, b.value) for a in Sensitivity for b in Sensitivity if a is not b),
    states={
        Sensitivity.REGULAR: "The default.",
        Sensitivity.SENSITIVE: "The mitra has marked the topic as sensitive.",
    },
    causes={
        (START, Sensitivity.REGULAR): [("The search begins.", "service")],
        (Sensitivity.REGULAR, Sensitivity.SENSITIVE): [("The mitra marks the topic.", "mitra")],
        (Sensitivity.SENSITIVE, Sensitivity.REGULAR): [
            ("The mitra takes the mark back, while `sensitive_flag_one_way_latch` is off.", "mitra")
        ],
    },
)

FAILURE = Machine(
    name="pairing failure",
    edges=_from_open(A) | {("open", "superseded")},
    states={
        "open": "An operator has to act. `operator_action` is null.",
        A.REFUNDED: "The customer has their money back.",
        A.CREDITED: "The customer was credited.",
        A.NO_ACTION: "The operator decided that no action is needed.",
        "superseded": "The customer tried again with the same money. The row stays; `superseded_at` is set.",
    },
    causes={
        (START, "open"): [("A paid request fails.", "service")],
        ("open", A.REFUNDED): [("An operator records it; an operator with a second factor confirms it.", "operator")],
        ("open", A.CREDITED): [("An operator records it.", "operator")],
        ("open", A.NO_ACTION): [("An operator records it.", "operator")],
        ("open", "superseded"): [("The customer falls back from a targeted request to a blast.", "customer")],
    },
)

MACHINES = (PAYMENT_REQUEST, SESSION, EXTENSION, INVITATION, PRESENCE, SENSITIVITY, FAILURE)


def diagram(machine: Machine) -> list[str]:
    """Return the lines of a machine's Mermaid diagram; a state without outgoing edges leads to the end."""
    starts = [f"    {before} --> {after}" for before, after in machine.causes if before == START]
    order = list(machine.states)
    edges = sorted(machine.edges, key=lambda edge: (order.index(edge[0]), order.index(edge[1])))
    final = [state for state in order if not any(before == state for before, _ in machine.edges)]
    return [
        "```mermaid",
        "stateDiagram-v2",
        *starts,
        *(f"    {before} --> {after}" for before, after in edges),
        *(f"    {state} --> {START}" for state in final),
        "```",
    ]


def block(machine: Machine) -> str:
    """Return a machine's part of the page, without its markers."""
    rows = [
        f"| {'' if before == START else f'`{before}`'} | `{after}` | {event} | {actor} |"
        for (before, after), causes in machine.causes.items()
        for event, actor in causes
    ]
    lines = [
        *diagram(machine),
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {meaning} |" for state, meaning in machine.states.items()),
        "",
        "| from | to | what happens | caused by |",
        "|---|---|---|---|",
        *rows,
    ]
    return "\n".join([*lines, ""])


def _duration(time: dt.timedelta | float) -> str:
    """Return a duration as text, in the largest fitting unit; a number is in seconds."""
    seconds = time.total_seconds() if isinstance(time, dt.timedelta) else time
    if seconds >= 3_600:
        return f"{seconds / 3_600:g} h"
    return f"{seconds / 60:g} min" if seconds > 180 else f"{seconds:g} s"


def constants() -> list[tuple[str, str, str]]:
    """Return (name, value, kind of time) for each fixed constant."""
    every = {sweep.name: _duration(sweep.every_s) for sweep in SWEEPS}
    *first, last = (f"{after.total_seconds() / 60:g}" for after in payment_rules.POLL_AFTER)
    return [
        ("session warning", f"{_duration(session_rules.WARNING)} before the end", "service"),
        ("grace period of `expired` and of `closing`", _duration(session_rules.GRACE), "service"),
        (
            "delay after `expires_at` within which a payment is still in time",
            _duration(payment_rules.LATE_TOLERANCE),
            "service",
        ),
        ("polls of the gateway after an invoice was made", f"{', '.join(first)} and {last} min", "service"),
        ("sweep for stale payment requests", f"every {every['expire_payments']}", "service"),
        ("sweep for paid requests without a search", f"every {every['announce_again']}", "service"),
        ("repeats of the number of asked mitras", f"at most every {_duration(REPEAT_AFTER)}", "service"),
        ("lifetime of a sign-in code", f"{_duration(otp.LIFETIME)}, {otp.CODE_LENGTH} digits", "service"),
        ("time in which a used refresh token gets the same answer", _duration(refresh.RETRY_WINDOW), "service"),
        ("time in which a used identity token gets the same answer", _duration(identity.REPEAT), "service"),
        ("time in which an idempotency key gets the same answer", _duration(idempotency.KEEP), "service"),
        ("anonymous customers who may join one account in a day", f"{JOINS_A_DAY}", "real"),
        ("time for which an unacknowledged event is sent again", _duration(delivery.KEEP_S), "real"),
        ("age of the number of available mitras", "at most 2 s", "real"),
        ("login token of an operator, until the second factor", _duration(login_token.LIVES), "real"),
        ("step-up by a fresh code", _duration(totp.STEPPED_UP_FOR), "real"),
        ("one-time code to set up a second factor", _duration(totp.ENROLMENT_CODE_FOR), "real"),
        ("message", f"1 to {messages.MAX_CONTENT:,} characters, {messages.MAX_METADATA:,} bytes of metadata", ""),
        ("goodbye", f"1 to {session_end.MAX_CLOSURE:,} characters", ""),
    ]


def constants_block() -> str:
    """Return the table of fixed constants, without its markers."""
    rows = [f"| {what} | {value} | {time} |" for what, value, time in constants()]
    return "\n".join(["| what | value | time |", "|---|---|---|", *rows, ""])


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.S)


def page(text: str) -> str:
    """Return the page with its generated parts replaced. Raises ValueError for a part without markers."""
    parts = {f"states: {machine.name}": block(machine) for machine in MACHINES}
    for name, part in {**parts, "constants": constants_block()}.items():
        marked = _marked(name)
        if len(marked.findall(text)) != 1:
            raise ValueError(f"{PAGE.name} must have one `<!-- {name} -->` … `<!-- end -->`")
        text = marked.sub(lambda found, part=part: f"{found[1]}{part}{found[2]}", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"{PAGE.name}: {len(MACHINES)} state machines, {len(constants())} constants")
