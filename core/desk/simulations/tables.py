"""The table of simulations."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.pairing.simulation.rules import SimulationFailure
from core.storage import columns


class Simulation(Table, tablename="simulations", db=columns.ENGINE):
    """A forecast that an operator asked for. Without `ended_at` it waits or runs, which only one does at a time."""

    id = columns.identifier()
    asked_by = columns.reference("Operator")
    asked_at = columns.moment(null=False)
    since_days = columns.number()
    settings = columns.json(null=False, personal=None)
    extra_shifts = columns.texts(null=False, personal=None)
    runner = columns.plain_id()  # the node of the jobs process that runs it, or did
    claimed_until_real_at = columns.moment()  # the end of the runner's claim
    percent = columns.number(default=0)  # how much of it is done
    ended_at = columns.moment()
    failure = columns.string(24, null=True)
    details = columns.json(personal=None)  # of the failure: what is missing
    result = columns.json(personal=None)

    known_failure = columns.words("failure", SimulationFailure)
    ends_with_one = Check("(ended_at IS NOT NULL)::int = num_nonnulls(failure, result)")
