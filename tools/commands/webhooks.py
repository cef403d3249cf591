"""Import of webhook calls from a fallback file (docs/glossary.md#fallback-file)."""

import pathlib
from collections import Counter

from rich.console import Console

from core.payments.webhooks import replay as webhook_replay
from core.runtime.container import Runtime


async def import_call(runtime: Runtime, path: pathlib.Path, console: Console, *, trust_unsealed: bool) -> int:
    """Process every line with the handler of the gateway's calls. Repeating it changes nothing.

    Lines without a valid seal of the service count as calls without a valid token, unless `trust_unsealed`.
    Return the exit code: 1 if a line could not be read or was refused. Raises OSError if the file can't be read.
    """
    results: Counter[str] = Counter()
    bad = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                answer = await webhook_replay.import_call(runtime, line, trust_unsealed=trust_unsealed)
            except ValueError as error:
                console.print(f"line {number}: {error}")
                bad += 1
                continue
            results["already in the log" if answer is None else answer.processing_result] += 1
            if answer is not None and answer.http_status >= 400:
                console.print(f"line {number}: {answer.http_status} {answer.processing_result}")
                bad += 1
    for result, count in sorted(results.items()):
        console.print(f"{count:6} {result}")
    console.print(
        "All lines were imported."
        if not bad
        else f"{bad} lines were not imported: check `sesi audit` and the webhook log."
    )
    return 1 if bad else 0
