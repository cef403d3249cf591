"""The tables of events: those that are not acknowledged yet (docs/events.md), and what happened to each."""

from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.deliveries.stages import TrailStage
from core.storage import columns
from core.storage.personal import Erase, Personal

STAGE = Personal(
    "when each of the user's devices got which event; ids, no content",
    "90 days, to the end of the month",
    Erase.BY_HAND,
    "deleted",
    exported=True,
)


class Delivery(Table, tablename="deliveries", db=columns.ENGINE):
    """One event for one user, stored with the change that it reports, deleted when it is acknowledged or given up.

    `created_at` is real time: it is compared with PUSH_ACK_SECONDS.
    """

    id = columns.identifier()
    recipient_id = columns.plain_id(null=False, owner=True)
    recipient_type = columns.string(10, personal=None)
    event = columns.string(40, personal=None)
    session_id = columns.plain_id()
    payload = columns.text(personal=Personal("events with names", "until acknowledged, at most an hour", Erase.ROW))
    created_at = columns.moment(null=False)
    # Real time at which it was claimed for pushes.
    pushed_real_at = columns.moment()
    # Auth sessions of devices that have acknowledged it without showing it; no other device has acknowledged it.
    unshown_on = columns.plain_ids()


class DeliveryTrail(Table, tablename="delivery_trail", db=columns.ENGINE):
    """One stage of an event on one device (docs/fairness.md#delivery-trail). A row never changes.

    `auth_session_id` is the device; null only for an event that is given up for all devices. It has no foreign key,
    because auth sessions are deleted sooner. `payment_request_id` is null for events about a session.
    """

    id = columns.identifier()
    event_id = columns.plain_id(null=False)
    stage = columns.string(20, personal=STAGE)
    auth_session_id = columns.plain_id()
    recipient_id = columns.plain_id(null=False, owner=True)
    event = columns.string(40, personal=None)
    session_id = columns.plain_id()
    payment_request_id = columns.plain_id()
    at = columns.moment(null=False)

    once = Unique(["event_id", "auth_session_id", "stage"])
    known_stage = columns.words("stage", TrailStage)
    device = Check("auth_session_id IS NOT NULL OR stage = 'given_up'")
