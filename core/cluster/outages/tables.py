"""Tables of process leases and outages."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.cluster.outages.rules import OutageKind, ProcessKind
from core.storage import columns


class ServiceProcess(Table, tablename="service_processes", db=columns.ENGINE):
    """The lease of the process at one place, renewed every second. All times are service time."""

    place = columns.string_key(255, personal=None)  # kind, machine, address and port
    kind = columns.string(16)
    since_at = columns.moment(null=False)  # start of the unbroken series of renewals that ends at `alive_at`
    alive_at = columns.moment(null=False)
    lost_at = columns.moment(null=False)  # end of the lease: from then on the process counts as dead or cut off
    given_up_at = columns.moment(null=False)  # from then on the process counts as dead
    pid = columns.number(null=True)  # on its machine

    known_kind = columns.words("kind", ProcessKind)


class Outage(Table, tablename="outages", db=columns.ENGINE):
    """An interval without a writable database, a realtime process or an API process, in service time."""

    id = columns.identifier()
    kind = columns.string(16)
    began_at = columns.moment(null=False)
    ended_at = columns.moment(null=False)
    credit_at = columns.moment()  # when the jobs process next credits sessions for it; null: never
    credited_at = columns.moment()  # when it has first done so

    known_kind = columns.words("kind", OutageKind)
    end_after_begin = Check("ended_at > began_at")
