"""Parse the PromQL expressions on standard input, a JSON list; print for each what it reads, as JSON.

A separate process runs this file, so that only it needs the parser: `{"problem": text, "reads": [[series, label, values]], "labels":
[text]}`. A label is read by a matcher, whose values are listed, or by an aggregation (`[]`); `[series, "", []]` is the
series itself. `labels` are those that the result can have, or null if it has all labels of its series.
"""

import json
import sys
from typing import Any

import promql_parser as promql  # pyright: ignore[reportMissingImports]


def selectors_in(expression: Any) -> list[Any]:
    """Return the selectors of series below an expression."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)

    promql.walk(expression, visit)
    return found


def reads_of(expression: Any) -> tuple[list[list[Any]], list[str] | None]:
    """Return what an expression reads, and the labels of its result."""
    reads: list[list[Any]] = []
    kept: set[str] | None = None
    for selector in selectors_in(expression):
        reads.append([selector.name, "", []])
        for matcher in selector.matchers.matchers:
            values = matcher.value.split("|") if "Re" in str(matcher.op) else [matcher.value]
            reads.append([selector.name, matcher.name, values])

    def visit(node: Any) -> None:
        nonlocal kept
        if not isinstance(node, promql.AggregateExpr):
            return
        labels = node.modifier.labels if node.modifier is not None else []
        kept = (kept or set()) | set(labels)
        for selector in selectors_in(node.expr):
            reads.extend([selector.name, label, []] for label in labels)

    promql.walk(expression, visit)
    return reads, None if kept is None else sorted(kept)


def answer(text: str) -> dict[str, Any]:
    """Return the answer about one expression."""
    try:
        reads, labels = reads_of(promql.parse(text))
    except ValueError as error:
        return {"problem": str(error), "reads": [], "labels": []}
    return {"problem": "", "reads": reads, "labels": labels}


if __name__ == "__main__":
    json.dump([answer(text) for text in json.load(sys.stdin)], sys.stdout)
