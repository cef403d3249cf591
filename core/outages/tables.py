"""Which processes live, and which outages there were (SQL: `piccolo_migrations/sql/outages.sql`)."""

from piccolo.columns import Varchar
from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns


class ServiceProcess(Table, tablename="service_processes"):
    """The lease of the process that runs at one place, renewed every second. All moments are service time."""

    place = Varchar(length=255, primary_key=True, default=None, null=False)  # kind, host and port
    kind = columns.string(16)
    since_at = columns.moment(null=False)  # the begin of the unbroken series of renewals that `alive_at` ends
    alive_at = columns.moment(null=False)
    lost_at = columns.moment(null=False)  # the end of the lease: from here on the process counts as dead or cut off
    given_up_at = columns.moment(null=False)  # from here on it counts as dead

    known_kind = Check("kind in ('api', 'realtime', 'jobs')")


class Outage(Table, tablename="outages"):
    """A time without a writable database, without a realtime process or without an API process; in service time."""

    id = columns.identifier()
    kind = columns.string(16)
    began_at = columns.moment(null=False)
    ended_at = columns.moment(null=False)

    known_kind = Check("kind in ('database', 'realtime', 'api')")
    end_after_begin = Check("ended_at > began_at")
