"""The tables of promised waits and of the estimates that they are made of."""

from piccolo.columns import Integer
from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns


class WaitEstimate(Table, tablename="wait_estimates", db=columns.ENGINE):
    """The latest estimate for an hour of the day, in UTC. `judged` and `missed` are about all promises."""

    hour = Integer(primary_key=True, default=None, null=False)
    searches = columns.number()
    # Null: fewer searches than that were accepted.
    p50_seconds = columns.number(null=True)
    p90_seconds = columns.number(null=True)
    judged = columns.number()
    missed = columns.number()
    estimated_at = columns.moment(null=False)

    hour_of_day = Check("hour BETWEEN 0 AND 23")
    in_order = Check("p90_seconds IS NULL OR (p50_seconds >= 1 AND p90_seconds >= p50_seconds)")
    missed_was_judged = Check("missed BETWEEN 0 AND judged")


class WaitPromise(Table, tablename="wait_promises", db=columns.ENGINE):
    """What the customer of a payment request was promised. Its rows never change, and are purged after 400 days."""

    payment_request_id = columns.reference("PaymentRequest", primary_key=True)
    made_at = columns.moment(null=False)
    p50_seconds = columns.number()
    p90_seconds = columns.number()
    is_shown = columns.flag(default=None)

    in_order = Check("p50_seconds >= 1 AND p90_seconds >= p50_seconds")
