"""The table of the cluster's leases."""

from piccolo.table import Table

from core.storage import columns


class ClusterLease(Table, tablename="cluster_leases", db=columns.ENGINE):
    """Work that one process of the cluster does at a time: one row for each kind. All times are real time."""

    name = columns.string_key(40, personal=None)
    holder = columns.plain_id()  # the node that does the work, or did it last
    until_real_at = columns.moment()  # end of the lease; null: never held
    done_real_at = columns.moment()  # when the work was last finished; null: never, or work without an end
