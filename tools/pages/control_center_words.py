"""The words of core that the control center shows, api/web/center/kernel/words.core.js.

They are the labels of the states of payments, sessions and refunds, of cause tags and sub-causes, of the results of the
gateway's calls, and of timed work.
"""

import json
from collections.abc import Mapping

from core.base.languages import Text
from core.base.machine import State
from core.desk.timed_work import TIMED
from core.payments.failures.causes import CauseTag, SubCause
from core.payments.gateway_calls import RESULT_LABELS
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.sessions.states import LIVE, SessionStatus

HEAD = """/** The labels of states, cause tags, results and timed work. Made by `make pages` from core; a test keeps them current. */
"""
WIDTH = 120  # of a line, as in biome.json


def script() -> str:
    """Return the text of the file."""
    payments, sessions, refunds = _labels(PaymentStatus), _labels(SessionStatus), _labels(RefundStatus)
    causes = {tag.value: tag.cause.label for tag in CauseTag}
    sub_causes = {sub.value: sub.texts.label for sub in SubCause}
    texts = [*payments.values(), *sessions.values(), *refunds.values()]
    texts += [*causes.values(), *sub_causes.values(), *RESULT_LABELS.values()]
    texts += [work.label for work in TIMED if work.label is not None]
    endable = json.dumps([status.value for status in SessionStatus if status in LIVE])
    return "\n".join(
        [
            HEAD,
            _object(
                "Payment state -> English label.", "PAYMENTS", {value: text.en for value, text in payments.items()}
            ),
            _object(
                "Session state -> English label.", "SESSIONS", {value: text.en for value, text in sessions.items()}
            ),
            _object("Refund state -> English label.", "REFUNDS", {value: text.en for value, text in refunds.items()}),
            f"// Session states that an operator can end.\nexport const ENDABLE = {endable};\n",
            _object("Cause tag -> English label.", "CAUSES", {tag: text.en for tag, text in causes.items()}),
            _object("Sub-cause -> English label.", "SUB_CAUSES", {sub: text.en for sub, text in sub_causes.items()}),
            _object(
                "Result of a call of the gateway -> English label.",
                "RESULTS",
                {value: text.en for value, text in RESULT_LABELS.items()},
            ),
            _object("English text -> Indonesian text.", "CORE_WORDS", {text.en: text.id for text in texts}),
        ]
    )


def _labels(states: type[State]) -> dict[str, Text]:
    """Return the labels of a machine's states by stored value."""
    return {state.value: state.label for state in states if state.label is not None}


def _object(comment: str, name: str, entries: Mapping[str, str]) -> str:
    """Return the declaration of an object."""
    lines = "".join(_entry(key, text) for key, text in entries.items())
    return f"// {comment}\nexport const {name} = {{\n{lines}}};\n"


def _entry(key: str, text: str) -> str:
    """Return a property as Biome formats it."""
    key = key if key.isidentifier() else json.dumps(key)
    value = json.dumps(text, ensure_ascii=False)
    line = f"  {key}: {value},"
    return f"{line}\n" if len(line) <= WIDTH else f"  {key}:\n    {value},\n"
