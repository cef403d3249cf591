"""The events of docs/events.md: every event with its meaning, what an app does, its recipients and its push, from the code."""

from core.base.languages import Language
from core.deliveries.events import Event, declared
from core.deliveries.pushes.rules import Words
from realtime import asyncapi


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
        " ".join(asyncapi.published(event.__doc__ or "").split()),
        "",
        f"- App: {event.app}",
        f"- Sent to: {', '.join(event.sent_to)}",
        f"- Order key: `{event.order_key}`",
        f"- Acknowledged by: {' or '.join(f'`{name}`' for name in event.acknowledged_by)}",
        f"- Push: {_push(event.push)}",
        "",
    ]


def listed() -> str:
    """Return the table of all events, and a section for each."""
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
    return "\n".join([*lines, "", *sections[:-1]]) + "\n"
