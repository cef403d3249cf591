"""The events and frames of docs/events.md: what each means, what an app does, who gets it, and an example, from the code."""

import json

import msgspec

from core.base.languages import Language
from core.deliveries.events import Event, declared
from core.deliveries.pushes.rules import Words
from realtime import asyncapi, server_frames
from realtime.frame_examples import CLIENT, SERVER

EVENTS = {frame.event: frame for frame in SERVER if isinstance(frame, server_frames.EventFrame)}


def _push(push: Words | str) -> str:
    if isinstance(push, str):
        return f"none. {push}"
    silent = [f"Not with `{field}: {value}`. {why}" for (field, value), why in push.quiet.items()]
    said = [f"“{push.title.said_in(language)}. {push.body.said_in(language)}”" for language in Language]
    return " ".join([f"`{push.action.value}`: {' / '.join(said)}", *silent])


def _section(event: type[Event]) -> list[str]:
    return [
        f"### {event.type_name()}",
        "",
        _meaning(event),
        "",
        f"- App: {event.app}",
        f"- Sent to: {', '.join(event.sent_to)}",
        f"- Order key: `{event.order_key}`",
        f"- Acknowledged by: {' or '.join(f'`{name}`' for name in event.acknowledged_by)}",
        f"- Push: {_push(event.push)}",
        "",
        *_example(EVENTS[event]),
    ]


def _example(frame: msgspec.Struct) -> list[str]:
    """Return a frame as JSON."""
    return ["```json", *json.dumps(asyncapi.payload_of(frame), indent=2).splitlines(), "```", ""]


def _frames() -> list[str]:
    """Return a section for the frames that are no events, in both directions."""
    answers = [frame for frame in SERVER if not isinstance(frame, server_frames.EventFrame)]
    lines: list[str] = []
    for title, frames in (("Frames of an app", CLIENT), ("Other frames of the service", answers)):
        lines += [f"## {title}", ""]
        for frame in frames:
            lines += [f"**`{asyncapi.type_of(type(frame))}`**. " + _meaning(type(frame)), "", *_example(frame)]
    return lines


def _meaning(kind: type) -> str:
    return " ".join(asyncapi.published(kind.__doc__ or "").split())


def listed() -> str:
    """Return the table of all events, a section for each, and the other frames."""
    lines = ["## All events", "", "| event | socket | sent to | order key | pushed |", "|---|---|---|---|---|"]
    sections: list[str] = []
    for socket in asyncapi.CHANNELS:
        sections += [f"## Events of `/ws/{socket}`", ""]
        for event in declared():
            if event.socket == socket:
                name = event.type_name()
                pushed = "no" if isinstance(event.push, str) else f"`{event.push.action.value}`"
                to, key = ", ".join(event.sent_to), event.order_key
                lines.append(f"| [`{name}`](#{name}) | `/ws/{socket}` | {to} | `{key}` | {pushed} |")
                sections += _section(event)
    return "\n".join([*lines, "", *sections, *_frames()[:-1]]) + "\n"
