"""Tables of configuration rows and of the anchor of service time."""

from piccolo.columns import Integer
from piccolo.table import Table

from core.storage import columns


class AppConfig(Table, tablename="app_config", db=columns.ENGINE):
    """One tunable value, usually {"value": scalar}."""

    key = columns.string_key(100, personal=None)
    value = columns.json(null=False, personal=None)
    updated_at = columns.moment(null=False)
    updated_by = columns.reference("Operator", null=True)


class ServiceClock(Table, tablename="service_clock", db=columns.ENGINE):
    """The anchor of service time: one row, written by the first process that connects to the database."""

    id = Integer(primary_key=True, default=1)
    anchor = columns.moment(null=False)
