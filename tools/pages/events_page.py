"""Write docs/events.md: every event with its meaning, what an app does, its recipients and its push, from the code."""

import pathlib

from core.base.languages import Language
from core.deliveries.events import Event, declared
from core.deliveries.pushes.rules import Words
from realtime import asyncapi

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "events.md"
HEAD = """# Events

What users are notified of. Made by `make pages` from the declarations of events (`events.py` of each domain in `core`) and
`tools/pages/events_page.py`; a test keeps it current. The interface document of the sockets (`sesi asyncapi`) has every frame with its
fields.

## How events arrive

**At least once.** An event with an `event_id` is stored in the transaction of the change that it reports. After the commit it is sent to
all sockets of its recipient. Each socket that connects within an hour gets the unacknowledged ones again, the newest 200 at most.
Messages are not among them: `sync` finds what you miss. Drop an `event_id` that you have seen, but acknowledge it again.

**Acknowledged once for all devices.** One device's acknowledgement is enough. Send it when the event is safe with the app, not when the
user has seen it.

**Pushed once.** An event that no device acknowledges within `PUSH_ACK_SECONDS` is pushed to each phone of the recipient. A push carries
the words below, where to go (`action`) and ids. It never carries what people write. Unread messages get one push for a session until
the recipient is back.

**In order.** The ids of one session's events grow in the order of its changes, and so do those of one payment request's
`payment_updated`. A lost event can come late: if its id is smaller than that of an event that you have of the same object, acknowledge
it and keep what you know. Messages come in the order of `seq`, without gaps.

**Found again.** An app that was away for longer than an hour needs no events: the snapshot in `auth_ok` and the REST routes have the
present state.
"""


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
        f"- Acknowledged by: {' or '.join(f'`{name}`' for name in event.acknowledged_by)}",
        f"- Push: {_push(event.push)}",
        "",
    ]


def page() -> str:
    """Return the page."""
    lines = [HEAD, "## All events", "", "| event | socket | sent to | pushed |", "|---|---|---|---|"]
    sections: list[str] = []
    for socket in asyncapi.CHANNELS:
        sections += [f"## Events of `/ws/{socket}`", ""]
        for event in declared():
            if event.socket == socket:
                name = event.type_name()
                pushed = "no" if isinstance(event.push, str) else f"`{event.push.action.value}`"
                lines.append(f"| [`{name}`](#{name}) | `/ws/{socket}` | {', '.join(event.sent_to)} | {pushed} |")
                sections += _section(event)
    return "\n".join([*lines, "", *sections[:-1]]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {len(declared())} events")
