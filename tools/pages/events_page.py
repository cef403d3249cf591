"""Write docs/events.md: every event with its meaning, what an app does, its recipients and its push, from the code."""

import pathlib
from collections.abc import Iterator

from core.base.languages import Language
from core.deliveries.pushes.rules import NOT_PUSHED, QUIET, WORDS
from realtime import asyncapi
from realtime.server_frames import FRAMES, ServerFrame

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "events.md"
HEAD = """# Events

What users are notified of. Made by `make pages` from the frames (`realtime/server_frames.py`), the rules of pushes
(`core/deliveries/pushes/rules.py`) and `tools/pages/events_page.py`; a test keeps it current. The interface document of the sockets
(`sesi asyncapi`) has every frame with its fields.

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

# Event -> what an app does with it, besides acknowledging it.
APP: dict[str, str] = {
    "message": "Show it in the order of `seq`. If a `seq` is missing before it, `sync`. Send `read` when the user has seen it.",
    "session_warning": "Show that three minutes are left. In the customer's app, offer an extension.",
    "session_started": "Open the chat. Count down to `expires_at` by the service's time, not the phone's.",
    "session_expired": "Stop sending messages. Offer a goodbye and, to the customer, an extension.",
    "session_resumed": "Let the user write again, and count down to the new `expires_at`.",
    "session_clock_adjusted": "Count down to the new `expires_at`, say in the chat that time was given back, and let the user "
    "write if the session is `active` again.",
    "session_closing": "Stop sending messages, and offer a goodbye.",
    "session_completed": "Close the chat. Show both goodbyes from `closures`.",
    "session_topic_updated": "Change the label of the chat. The customer's app shows no notice.",
    "peer_renamed": "Show the new name of the other party wherever the chat shows it.",
    "peer_absent": "Show that the other party is away since `since`, until `peer_returned`, or the session closes.",
    "peer_returned": "Stop showing that the other party is away.",
    "extension_resolved": "Show the outcome to the customer. If it was approved, `session_resumed` comes as well.",
    "extension_requested": "Ask the mitra, with a countdown to `answer_by`, and send the answer over REST.",
    "pairing_status": "`searching`: show how many mitras were asked. `paired`: open the session. `failed`: show why, and after a "
    "`targeted_…` cause offer to ask all mitras. `cancelled`: leave the search.",
    "payment_updated": "Replace the payment request on the screen by this one.",
    "chat_request": "Show it with a countdown to `answer_by`. It replaces an earlier one of the same session.",
    "chat_request_closed": "Remove the request from the list.",
    "mitra_status_changed": "Show the state and the reason. `stale`, `operator`: offer to go online again. `deactivated`: sign out.",
}


def events() -> Iterator[tuple[str, type[ServerFrame], list[str]]]:
    """Yield the path, frame and recipients of each event, each once."""
    for path in asyncapi.CHANNELS:
        for frame in asyncapi.sent_on(path):
            if "event_id" in frame.__struct_fields__:
                yield path, frame, [kind.value for (one, kind), sent in FRAMES.items() if one == path and frame in sent]


def _push(event: str) -> str:
    if event in NOT_PUSHED:
        return f"none. {NOT_PUSHED[event]}"
    words = WORDS[event]
    silent = [f"Not with `{field}: {value}`. {why}" for (name, field, value), why in QUIET.items() if name == event]
    said = [f"“{words.title.said_in(language)}. {words.body.said_in(language)}”" for language in Language]
    return " ".join([f"`{words.action.value}`: {' / '.join(said)}", *silent])


def _section(frame: type[ServerFrame], recipients: list[str]) -> list[str]:
    event = asyncapi.type_of(frame)
    return [
        f"### {event}",
        "",
        " ".join(asyncapi.published(frame.__doc__ or "").split()),
        "",
        f"- App: {APP[event]}",
        f"- Sent to: {', '.join(recipients)}",
        f"- Acknowledged by: {' or '.join(f'`{name}`' for name in asyncapi.acknowledged_by(frame))}",
        f"- Push: {_push(event)}",
        "",
    ]


def page() -> str:
    """Return the page."""
    found = list(events())
    lines = [HEAD, "## All events", "", "| event | socket | sent to | pushed |", "|---|---|---|---|"]
    for path, frame, recipients in found:
        event = asyncapi.type_of(frame)
        pushed = "no" if event in NOT_PUSHED else f"`{WORDS[event].action.value}`"
        lines.append(f"| [`{event}`](#{event}) | `/ws/{path}` | {', '.join(recipients)} | {pushed} |")
    lines.append("")
    for path in asyncapi.CHANNELS:
        lines += [f"## Events of `/ws/{path}`", ""]
        for one, frame, recipients in found:
            if one == path:
                lines += _section(frame, recipients)
    return "\n".join(lines[:-1]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {len(list(events()))} events")
