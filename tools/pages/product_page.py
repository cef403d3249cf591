"""The parts of docs/product.md that are made from the code: the state machines with a table, the cause tags and the fixed constants."""

import datetime as dt
from collections.abc import Iterable, Mapping

from core.accounts.customers.store import JOINS_A_DAY
from core.accounts.logins import otp
from core.accounts.operators import login_token, totp
from core.base.machine import EdgeCause, Edges, S
from core.idempotency import rules as idempotency
from core.pairing.rules import REPEAT_AFTER
from core.payments import gateway_calls
from core.payments import rules as payment_rules
from core.payments import states as payments
from core.payments.failures.causes import CauseTag, SubCause
from core.payments.refunds import states as refunds
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.security import identity, refresh
from core.sessions import deliver
from core.sessions import end as end_session
from core.sessions import rules as session_rules
from core.sessions import states as sessions
from core.sessions.extensions import states as extensions
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.messages import rules as messages
from core.sessions.states import SessionStatus
from jobs.schedule import SWEEPS
from jobs.simulation import LIMIT_S

Causes = tuple[EdgeCause, ...]
START = "[*]"  # Mermaid's name for the beginning and the end of a diagram


class Machine:
    """The states of a machine, and the causes of each edge; an edge from START is the creation of the object."""

    def __init__(self, states: type[S], initial: Mapping[S, Causes], edges: Edges[S]) -> None:
        """Take a machine as `core/*/states.py` declare it."""
        self.states = tuple(states)
        self.causes: dict[tuple[str, str], Causes] = {(START, state): causes for state, causes in initial.items()}
        self.causes.update(edges.items())


MACHINES = {
    "payment request": Machine(PaymentStatus, payments.INITIAL, payments.EDGES),
    "chat session": Machine(SessionStatus, sessions.INITIAL, sessions.EDGES),
    "extension": Machine(ExtensionStatus, extensions.INITIAL, extensions.EDGES),
    "refund": Machine(RefundStatus, refunds.INITIAL, refunds.EDGES),
}


def initiators(causes: Iterable[EdgeCause]) -> str:
    """Return the initiators of all causes as text, each once."""
    *first, last = dict.fromkeys(initiator.value for cause in causes for initiator in cause.initiators)
    return f"{', '.join(first)} or {last}" if first else last


def diagram(machine: Machine) -> list[str]:
    """Return the lines of a machine's Mermaid diagram; a state without outgoing edges leads to the end."""
    order = [START, *machine.states]
    edges = sorted(machine.causes.items(), key=lambda edge: (order.index(edge[0][0]), order.index(edge[0][1])))
    final = [state for state in machine.states if not any(before == state for before, _ in machine.causes)]
    return [
        "```mermaid",
        "stateDiagram-v2",
        *(f"    {before} --> {after}: {initiators(causes)}" for (before, after), causes in edges),
        *(f"    {state} --> {START}" for state in final),
        "```",
    ]


def block(machine: Machine) -> str:
    """Return a machine's part of the page."""
    rows = [
        f"| {'' if before == START else f'`{before}`'} | `{after}` | {cause.event} | {initiators([cause])} |"
        for (before, after), causes in machine.causes.items()
        for cause in causes
    ]
    lines = [
        *diagram(machine),
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {state.meaning} |" for state in machine.states),
        "",
        "| from | to | what happens | caused by |",
        "|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


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
            _duration(gateway_calls.LATE_TOLERANCE),
            "service",
        ),
        ("polls of the gateway after an invoice was made", f"{', '.join(first)} and {last} min", "service"),
        ("sweep for stale payment requests", f"every {every['expire_payments']}", "service"),
        ("sweep for paid requests without a search", f"every {every['announce_again']}", "service"),
        ("sweep for mitras without a device", f"every {every['signed_out']}", "service"),
        ("estimate of the wait for a mitra", f"every {every['estimate_waits']}", "service"),
        ("time of a simulation", f"at most {_duration(LIMIT_S)}", "real"),
        ("repeats of the number of asked mitras", f"at most every {_duration(REPEAT_AFTER)}", "service"),
        ("lifetime of a sign-in code", f"{_duration(otp.LIFETIME)}, {otp.CODE_LENGTH} digits", "service"),
        ("time in which a used refresh token gets the same answer", _duration(refresh.RETRY_WINDOW), "service"),
        ("time in which a used identity token gets the same answer", _duration(identity.REPEAT), "service"),
        ("time in which an idempotency key gets the same answer", _duration(idempotency.KEEP), "service"),
        (
            "time in which a sign-in that ended its own token gets the same answer",
            _duration(idempotency.SIGN_IN_REPEAT),
            "service",
        ),
        ("anonymous customers who may join one account in a day", f"{JOINS_A_DAY}", "real"),
        ("time for which an unacknowledged event is sent again", _duration(deliver.KEEP_S), "real"),
        ("age of the number of available mitras", "at most 2 s", "real"),
        ("login token of an operator, until the second factor", _duration(login_token.LIVES), "real"),
        ("step-up by a fresh code", _duration(totp.STEPPED_UP_FOR), "real"),
        ("one-time code to set up a second factor", _duration(totp.ENROLMENT_CODE_FOR), "real"),
        ("message", f"1 to {messages.MAX_CONTENT:,} characters, {messages.MAX_METADATA:,} bytes of metadata", ""),
        ("goodbye", f"1 to {end_session.MAX_CLOSURE:,} characters", ""),
    ]


def constants_block() -> str:
    """Return the table of fixed constants, without its markers."""
    rows = [f"| {what} | {value} | {time} |" for what, value, time in constants()]
    return "\n".join(["| what | value | time |", "|---|---|---|", *rows, ""])


def cause_tags_block() -> str:
    """Return the tables of cause tags and of sub-causes, without their markers."""
    rows = [f"| `{tag}` | {tag.cause.when} |" for tag in CauseTag]
    below = [f"| `{sub}` | {sub.texts.when} |" for sub in SubCause]
    tags, subs = ["| cause tag | when |", "|---|---|", *rows], ["| sub-cause | when |", "|---|---|", *below]
    return "\n".join([*tags, "", *subs, ""])


def parts() -> dict[str, str]:
    """Return the parts of the page by their markers."""
    found = {f"states: {name}": block(machine) for name, machine in MACHINES.items()}
    return found | {"cause tags": cause_tags_block(), "constants": constants_block()}
