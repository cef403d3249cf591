"""Both languages are complete: every English text has an Indonesian one, and no entry is unused."""

import json
import re

from api.internal.control_center import FOLDER
from api.static_files import SHARED
from core.deliveries.stages import TrailStage
from core.desk.timeline.entries import ORDER
from core.payments.states import PaymentStatus
from core.sessions.states import SessionStatus

FILES = [path for folder in (FOLDER, SHARED) for path in sorted(folder.rglob("*.js")) if path.parent.name != "vendor"]
SCRIPTS = {path.name: path.read_text() for path in FILES if not path.name.endswith(".id.js")}
DICTIONARY = "".join(path.read_text() for path in FILES if path.name.endswith(".id.js"))
STRING = r'"((?:[^"\\]|\\.)*)"'
SAYS_NOTHING = {""}


def arguments(script: str) -> set[str]:
    """Return every literal text that is passed to `t(…)`, also as one branch of a condition."""
    found = set()
    for call in re.finditer(r"\bt\(", script):
        depth, at = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(script[at], 0)
            at += 1
        first = re.split(r",\s*\{", script[call.end() : at - 1])[0]
        found |= set(re.findall(STRING, re.sub(r"===\s*\"\w+\"", "", first)))
    return found


def tables() -> set[str]:
    """Return the texts in tables, which are passed to `t` by a variable."""
    status, timeline, app = SCRIPTS["status.js"], SCRIPTS["timeline.js"], SCRIPTS["app.js"]
    words = set(re.findall(rf"\[{STRING}, \"(?:good|bad|warn|busy)?\"\]", status + timeline))
    words |= set(re.findall(rf"\[\"/[^\"]*\", {STRING}", app))
    words |= {"primary", "secondary"}
    for script, name in (
        ("roles.js", "AREAS"), ("roles.js", "ACCESS"), ("tier_history.js", "KINDS"), ("price.js", "WORDS"), ("sessions.js", "ENDED_BY"),
        ("audit_log.js", "ACTIONS"), ("audit_log.js", "OBJECTS"), ("customers.js", "PROVIDERS"),
    ):  # fmt: skip
        table = re.search(rf"const {name} = (\{{.*?\}});", SCRIPTS[script], re.DOTALL)
        assert table is not None, name
        words |= set(re.findall(rf": {STRING}", table[1]))
    words |= set(re.findall(rf"const RULES = {STRING}", SCRIPTS["operators.js"]))
    return words


def entries() -> dict[str, str]:
    """Return the dictionary."""
    body = DICTIONARY[DICTIONARY.index("{") + 1 :]
    pairs = re.findall(rf"^  (?:{STRING}|(\w+)):\s*{STRING},$", body, re.MULTILINE)
    keys = [json.loads(f'"{quoted}"') if quoted else plain for quoted, plain, _ in pairs]
    assert len(keys) == len(set(keys)), "one English text has two entries"
    assert len(keys) == len(re.findall(r"\",\n", body)), "an entry is written in a way that this test can't read"
    return {key: json.loads(f'"{words}"') for key, (_, _, words) in zip(keys, pairs, strict=True)}


def test_every_english_text_has_an_indonesian_one() -> None:
    said = set().union(*map(arguments, SCRIPTS.values())) | tables()
    assert sorted(said - set(entries()) - SAYS_NOTHING) == []


def test_dictionary_has_no_unused_entries() -> None:
    literal = set(re.findall(STRING, "\n".join(SCRIPTS.values())))
    kinds = {json.loads(f'"{text}"') for text in literal}
    # The service's error messages are looked up by their English text.
    errors = {text for text in entries() if text.endswith(".")}
    assert sorted(set(entries()) - kinds - errors) == []


def test_placeholders_are_the_same_in_both_languages() -> None:
    def names(text: str) -> list[str]:
        return sorted(re.findall(r"\{(\w+)\}", text))

    assert [english for english, words in entries().items() if names(english) != names(words)] == []
    assert [english for english, words in entries().items() if not words.strip()] == []


def test_every_payment_and_session_state_has_a_label() -> None:
    assert [state for state in (*PaymentStatus, *SessionStatus) if state.label is None] == []


def test_every_kind_of_timeline_entry_and_stage_of_an_event_has_a_label() -> None:
    for name, words in (("KINDS", ORDER), ("STAGES", tuple(TrailStage))):
        table = re.search(rf"const {name} = (\{{.*?\}});", SCRIPTS["timeline.js"], re.DOTALL)
        assert table is not None
        assert sorted(re.findall(r"^  (\w+): \[", table[1], re.MULTILINE)) == sorted(words)
