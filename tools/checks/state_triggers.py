"""The database functions that are written from the states.py of each domain: the sets of states that statements ask for,
and the triggers that refuse undeclared state changes."""

import itertools
import re
from collections.abc import Iterable, Set

import attrs

from core.base.machine import State
from core.payments import states as payment_states
from core.payments.refunds import states as refund_states
from core.sessions import states as session_states
from core.sessions.extensions import states as extension_states

MITRA_IS_SET_ONCE = """
  IF OLD.mitra_id IS NOT NULL AND NEW.mitra_id IS DISTINCT FROM OLD.mitra_id THEN
    RAISE EXCEPTION 'chat session %: a mitra is set once', OLD.id USING ERRCODE = 'check_violation';
  END IF;"""


@attrs.frozen
class StateSet:
    """A function that says whether a status is in a set. PostgreSQL inlines it, so indexes serve it like a list."""

    name: str
    states: Set[State]

    def function_sql(self) -> str:
        """Return the statement that creates or replaces the function."""
        (kind,) = {type(state) for state in self.states}
        listed = ", ".join(f"'{state}'" for state in kind if state in self.states)
        return f"""CREATE OR REPLACE FUNCTION {self.name}(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ({listed})
$$;
"""

    def is_in(self, function: str) -> bool:
        """Return whether the text of a function has the same states."""
        return set(re.findall(r"'(\w+)'", function)) == self.states


@attrs.frozen(kw_only=True)
class StateTrigger:
    """A trigger before updates of `columns`, and its function of the same name.

    `subject` names a row in the error message. `rule` is more PL/pgSQL for the function.
    """

    name: str
    table: str
    subject: str
    edges: Iterable[tuple[str, str]]
    columns: str = "status"
    rule: str = ""

    def function_sql(self) -> str:
        """Return the statement that creates or replaces the function."""
        groups = itertools.groupby(self.edges, key=lambda edge: edge[0])
        allowed = ",\n    ".join(
            ", ".join(f"('{before}', '{after}')" for before, after in group) for _, group in groups
        )
        return f"""CREATE OR REPLACE FUNCTION {self.name}() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    {allowed}
  ) THEN
    RAISE EXCEPTION '{self.subject} %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;{self.rule}
  RETURN NEW;
END $$;
"""

    def is_in(self, function: str) -> bool:
        """Return whether the text of a function allows the same edges."""
        return set(edges_in(function)) == set(self.edges)

    def trigger_sql(self) -> str:
        """Return the statement that creates or replaces the trigger."""
        return f"""CREATE OR REPLACE TRIGGER {self.name}
BEFORE UPDATE OF {self.columns} ON {self.table}
FOR EACH ROW EXECUTE FUNCTION {self.name}();
"""


SETS = (
    StateSet("is_held", session_states.HELD),
    StateSet("is_live", session_states.LIVE),
    StateSet("is_open", session_states.OPEN),
    StateSet("is_unended", session_states.UNENDED),
    StateSet("is_closable", session_states.CLOSABLE),
    StateSet("is_ended", session_states.ENDED),
    StateSet("is_unpaired", session_states.UNPAIRED),
    StateSet("is_earning", extension_states.EARNING),
    StateSet("is_open_refund", refund_states.OPEN),
)
TRIGGERS = (
    StateTrigger(
        name="payment_request_edge",
        table="payment_requests",
        subject="payment request",
        edges=payment_states.EDGES,
    ),
    StateTrigger(
        name="chat_session_edge",
        table="chat_sessions",
        subject="chat session",
        edges=session_states.EDGES,
        columns="status, mitra_id",
        rule=MITRA_IS_SET_ONCE,
    ),
    StateTrigger(
        name="session_extension_edge",
        table="session_extensions",
        subject="extension",
        edges=extension_states.EDGES,
    ),
    StateTrigger(
        name="refund_edge",
        table="refunds",
        subject="refund",
        edges=refund_states.EDGES,
    ),
)


def edges_in(function: str) -> list[tuple[str, str]]:
    """Return the edges that the text of a trigger function allows."""
    allowed = re.search(r"\(OLD\.status, NEW\.status\) NOT IN \((.*?)\)\s*THEN", function, re.S)
    assert allowed is not None
    return re.findall(r"\('(\w+)', '(\w+)'\)", allowed[1])
