"""The Python client reproduces every conversation vector, and the vectors fit the interface documents."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.each import for_each
from tests.vectors import documents, player
from tools.driving.sesi_client.sync import digest_of

VECTORS = player.read_all()
each_vector = for_each("vector", VECTORS.values(), ids=list(VECTORS))
DIGESTS = json.loads((player.FOLDER / "digests" / "digests.json").read_text(encoding="utf-8"))
FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def errors(schema: dict[str, Any], components: dict[str, Any], value: Any) -> list[str]:
    """Return what is wrong with a value."""
    validator = jsonschema.Draft202012Validator({**schema, "components": components}, format_checker=FORMAT_CHECKER)
    return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(value)]


def answer_schema(route: str, status: int) -> dict[str, Any]:
    """Return the schema of an answer's body."""
    method, path = route.split(" ")
    for template, operations in documents.REST["paths"].items():
        if method.lower() in operations and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            if status >= 400:
                return {"$ref": "#/components/schemas/Error"}
            content = operations[method.lower()]["responses"][str(status)].get("content", {})
            return content.get("application/json", {}).get("schema", {"type": "null"})
    raise LookupError(f"no route {route}")


@each_vector
def test_python_client_plays_the_vector(vector: dict[str, Any]) -> None:
    performance = player.play(vector)
    assert performance.served
    for kind, name, value in performance.served:
        if kind == "frame":
            schema = documents.frame_schema(performance.role, name, value["type"])
            assert errors(schema, documents.SOCKETS["components"], value) == []
        else:
            status, body = value
            assert errors(answer_schema(name, status), documents.REST["components"], body) == []


def fields_of(value: Any, place: str = "") -> set[str]:
    """Return the paths of all fields of a value; the items of a list have the same path."""
    if isinstance(value, list):
        return set[str]().union(*(fields_of(item, f"{place}[]") for item in value))
    if not isinstance(value, dict):
        return set()
    inner = (fields_of(item, f"{place}.{key}") for key, item in value.items())
    return {f"{place}.{key}" for key in value}.union(*inner)


def recorded_fields() -> dict[str, set[str]]:
    """Return the fields that the service has sent, by the type of the frame; those of bodies are under `body`."""
    found = {"body": set[str]().union(*map(fields_of, documents.OBJECTS["schemas"].values()))}
    for frames in documents.OBJECTS["frames"].values():
        for frame in frames.values():
            found[frame["type"]] = found.get(frame["type"], set()) | fields_of(frame)
    return found


@each_vector
def test_vector_serves_only_fields_that_were_recorded(vector: dict[str, Any]) -> None:
    recorded = recorded_fields()
    for kind, _, value in player.play(vector).served:
        name, served = (value["type"], value) if kind == "frame" else ("body", value[1])
        assert fields_of(served) - {".metadata.note"} <= recorded[name]


@each_vector
def test_vector_has_the_form_of_the_schema(vector: dict[str, Any]) -> None:
    schema = json.loads((player.FOLDER / "schema.json").read_text(encoding="utf-8"))
    assert errors(schema, {}, vector) == []


@each_vector
def test_vector_names_a_section_of_the_protocol(vector: dict[str, Any]) -> None:
    text = (documents.ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    titles = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert vector["rule"] in titles


@pytest.mark.parametrize("chat", DIGESTS, ids=lambda chat: chat["name"])
def test_python_client_computes_the_digests(chat: dict[str, Any]) -> None:
    found = [digest_of(chat["messages"][:n]) for n in range(1, len(chat["messages"]) + 1)]
    assert found == chat["digests"]


def ids_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the (client_message_id, id) of the messages in a part of a vector."""
    if isinstance(value, dict) and {"id", "client_message_id"} <= value.keys():
        yield value["client_message_id"], value["id"]
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from ids_of(one)


@each_vector
def test_message_has_one_id_unless_the_service_has_lost_it(vector: dict[str, Any]) -> None:
    """Stores of apps have the id as their key."""
    known: dict[str, str] = {}
    for message, its_id in ids_of(vector["steps"]):
        assert known.setdefault(message, its_id) == its_id or its_id.endswith("_new")


def test_player_reports_a_client_that_does_something_else() -> None:
    """A vector whose expectation is wrong fails, and so does one that leaves something out."""
    sent = json.loads(json.dumps(VECTORS["message-sent"]))
    for step in sent["steps"]:
        if "expect" in step:
            step["expect"]["frame"]["content"] = "Hola"
    with pytest.raises(AssertionError, match="'Halo', not 'Hola'"):
        player.play(sent)
    silent = {**VECTORS["message-sent"], "steps": VECTORS["message-sent"]["steps"][:3]}
    with pytest.raises(AssertionError, match="the client did"):
        player.play(silent)


def test_page_for_authors_names_every_vector() -> None:
    """docs/clients.md says which duty each vector tests, and names no vector that does not exist."""
    page = (documents.ROOT / "docs/clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert named == set(VECTORS)


def test_page_for_authors_names_every_call_and_step() -> None:
    page = (documents.ROOT / "docs/clients.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([a-z_]+)`", page))
    steps = [step for vector in VECTORS.values() for step in vector["steps"]]
    assert {key for step in steps for key in step} - {"code", "of", "on"} <= words
    assert {step["call"] for step in steps if "call" in step} <= words
    assert {key for step in steps for key in step.get("state", {})} <= words


def test_mutations_are_in_words_and_name_vectors() -> None:
    found = json.loads((player.FOLDER / "mutations.json").read_text(encoding="utf-8"))
    for one in found:
        assert set(one["caught_by"]) <= set(VECTORS), one["id"]
        assert re.search(r"[;{}()#]|=>|\bthis\b", one["break"]) is None, one["id"]
