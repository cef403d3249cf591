"""Which changes between two versions of an interface document break a client (docs/api/README.md).

Schemas are JSON Schema as the OpenAPI and AsyncAPI documents of this project use it. What a client sends must stay
accepted; what a client receives must stay there. Additions break no client, because clients ignore what they do not
know.
"""

from collections.abc import Iterator
from typing import Any, Literal

Schema = dict[str, Any]
Direction = Literal["sent", "received"]  # by the client

# Keywords whose value may only grow, or only fall, in what a client sends.
LOWER_BOUNDS = ("minLength", "minimum", "minItems", "minProperties", "exclusiveMinimum")
UPPER_BOUNDS = ("maxLength", "maximum", "maxItems", "maxProperties", "exclusiveMaximum")
SHAPES = ("pattern", "format")
TYPES = {str: "string", bool: "boolean", int: "integer", type(None): "null"}


class SchemaPair:
    """Two versions of one document. A schema may refer to other parts of the document that it is in."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str, str]] = set()

    def resolved(self, schema: Schema, *, new: bool) -> Schema:
        """Return the schema that a reference leads to, or the schema itself. Raises KeyError for a dangling one."""
        while "$ref" in schema:
            found: Any = self._new if new else self._old
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            schema = found
        return schema

    def changes(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        """Yield a sentence for each breaking change; each pair of components is reported once a direction."""
        if "$ref" in old and "$ref" in new:
            seen = (old["$ref"], new["$ref"], direction)
            if seen in self._seen:
                return
            self._seen.add(seen)
            where = old["$ref"].rpartition("/")[2]
        before, after = self._branches(old, new=False), self._branches(new, new=True)
        yield from _kind_changes(before, after, direction, where)
        for kind in sorted(before.keys() & after.keys()):
            yield from self._branch_changes(before[kind], after[kind], direction, where)

    def _branches(self, schema: Schema, *, new: bool) -> dict[str, Schema]:
        """Return the alternatives of a schema by their JSON type; objects by their tag, if they have one."""
        schema = self.resolved(schema, new=new)
        found: dict[str, Schema] = {}
        alternatives = schema.get("anyOf", schema.get("oneOf", []))
        # A name tells several objects apart; the name of a single one may change.
        objects = sum("$ref" in one for one in alternatives)
        for one in alternatives:
            for kind, branch in self._branches(one, new=new).items():
                named = one["$ref"].rpartition("/")[2] if "$ref" in one and kind == "object" else None
                found[f"object {named}" if named and objects > 1 else kind] = branch
        if found:
            return found
        for kind in _types(schema):
            tags = _values(schema.get("properties", {}).get("type", {})) if kind == "object" else set()
            found[f"object {min(tags)!r}" if len(tags) == 1 else kind] = schema if kind != "null" else {}
        return found

    def _branch_changes(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        for value in _values(old) - _values(new) if _values(new) else ():
            yield f"{where} no longer {'accepts' if direction == 'sent' else 'has'} the value {value}"
        if direction == "sent":
            yield from _stricter(old, new, where)
        yield from self._field_changes(old, new, direction, where)
        for keyword in ("items", "additionalProperties", "propertyNames"):
            if isinstance(old.get(keyword), dict) and isinstance(new.get(keyword), dict):
                yield from self.changes(old[keyword], new[keyword], direction, f"{where}[]")

    def _field_changes(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed, needed_now = set(old.get("required", ())), set(new.get("required", ()))
        for name in before:
            field = f"{where}.{name}"
            if name not in after:
                yield f"{field} is removed"
                continue
            if direction == "received" and name in needed - needed_now:
                yield f"{field} may now be absent"
            yield from self.changes(before[name], after[name], direction, field)
        if direction == "sent":
            for name in sorted(needed_now - needed):
                yield f"{where}.{name} is now required"


def _kind_changes(
    before: dict[str, Schema], after: dict[str, Schema], direction: Direction, where: str
) -> Iterator[str]:
    """Yield the JSON types that a request no longer accepts, or that an answer may now have."""
    lost, wider = (
        (before.keys() - after.keys(), after) if direction == "sent" else (after.keys() - before.keys(), before)
    )
    for kind in lost:
        if not (kind == "integer" and "number" in wider):
            yield f"{where} no longer accepts {kind}" if direction == "sent" else f"{where} may now be {kind}"


def _stricter(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield what a schema of a request no longer accepts, apart from its fields."""
    yield from _tighter_bounds(old, new, where)
    if _values(new) and not _values(old):
        yield f"{where} accepts only {', '.join(sorted(_values(new)))} now"
    if new.get("additionalProperties") is False and old.get("additionalProperties") is not False:
        yield f"{where} no longer accepts other fields"
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield f"{where} no longer accepts an item twice"


def _tighter_bounds(old: Schema, new: Schema, where: str) -> Iterator[str]:
    for keyword in LOWER_BOUNDS:
        if keyword in new and new[keyword] > old.get(keyword, float("-inf")):
            yield f"{where}: {keyword} rises from {old.get(keyword)} to {new[keyword]}"
    for keyword in UPPER_BOUNDS:
        if keyword in new and new[keyword] < old.get(keyword, float("inf")):
            yield f"{where}: {keyword} falls from {old.get(keyword)} to {new[keyword]}"
    for keyword in SHAPES:
        if keyword in new and new[keyword] != old.get(keyword):
            yield f"{where}: {keyword} changes from {old.get(keyword)} to {new[keyword]}"


def _types(schema: Schema) -> list[str]:
    """Return the JSON types of a schema without alternatives; those of its values, if it lists them alone."""
    kinds = schema.get("type", [])
    values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    of_values = sorted({next(name for kind, name in TYPES.items() if isinstance(value, kind)) for value in values})
    return ([kinds] if isinstance(kinds, str) else kinds) or of_values or ["anything"]


def _values(schema: Schema) -> set[str]:
    single = {str(schema["const"])} if "const" in schema else set()
    return single | {str(value) for value in schema.get("enum", ()) if value is not None}
