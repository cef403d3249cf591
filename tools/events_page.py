"""Writes docs/events.md: every event with its meaning, its recipients and its push, or why it has none, from the code."""

import pathlib
from collections.abc import Iterator

from core.base.languages import Language
from core.pushes.rules import NOT_PUSHED, QUIET, WORDS
from realtime import asyncapi
from realtime.server_frames import FRAMES, ServerFrame

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "events.md"
HEAD = """# Events

What users are notified of. An event with an `event_id` is stored with the change that it reports, sent to all sockets of its
recipient after the commit, and sent again to each one that connects within the hour, until one device has acknowledged it.
What is not acknowledged within `PUSH_ACK_SECONDS` is pushed, once, to each phone of the recipient. A push carries the words
below, where to go (`action`) and ids, and nothing of what people write.

Made by `make pages` from the frames (`realtime/server_frames.py`) and the rules of pushes (`core/pushes/rules.py`);
a test keeps it current. The interface document of the sockets (`sesi asyncapi`) has every frame with its fields.
"""


def events() -> Iterator[tuple[str, type[ServerFrame], list[str]]]:
    """Yield the path, frame and recipients of each event, each once."""
    for path in asyncapi.CHANNELS:
        for frame in asyncapi.sent_on(path):
            if "event_id" in frame.__struct_fields__:
                yield path, frame, [kind.value for (one, kind), sent in FRAMES.items() if one == path and frame in sent]


def _push(event: str) -> str:
    if event in NOT_PUSHED:
        return f"None. {NOT_PUSHED[event]}"
    words = WORDS[event]
    silent = [f"Not with `{field}: {value}`. {why}" for (name, field, value), why in QUIET.items() if name == event]
    said = [f"“{words.title.said_in(language)}. {words.body.said_in(language)}”" for language in Language]
    return "<br>".join([f"`{words.action.value}`: {' / '.join(said)}", *silent])


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    for path in asyncapi.CHANNELS:
        lines += [
            f"## `/ws/{path}`",
            "",
            "| event | what has happened | sent to | acknowledged by | push |",
            "|---|---|---|---|---|",
        ]
        for one, frame, recipients in events():
            if one == path:
                event, meaning = asyncapi.type_of(frame), " ".join(asyncapi.said(frame).split())
                by = " or ".join(f"`{name}`" for name in asyncapi.acknowledged_by(frame))
                lines.append(f"| `{event}` | {meaning} | {', '.join(recipients)} | {by} | {_push(event)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {len(list(events()))} events")
