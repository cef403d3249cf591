"""The tables of failed pairings: paid requests that led to no chat, and why."""

from piccolo.columns.base import OnDelete
from piccolo.constraints import Check
from piccolo.table import Table

from core.payments.failures.causes import SubCause
from core.payments.failures.rules import OperatorAction
from core.storage import columns
from core.storage.personal import Erase, Personal

NOTE = Personal("what an operator wrote about a failed pairing", "always", Erase.NULL)


class KnownCause(Table, tablename="cause_tags", db=columns.ENGINE):
    """A cause tag of the code, or of an earlier version. `sesi migrate` adds missing ones."""

    tag = columns.string_key(40, personal=None)


class PairingFailure(Table, tablename="pairing_failures", db=columns.ENGINE):
    """Why a paid request led to no chat, and what an operator did about it. A later try supersedes the row; none is
    deleted."""

    id = columns.identifier()
    payment_request_id = columns.reference("PaymentRequest", on_delete=OnDelete.cascade)
    customer_id = columns.reference("Customer", owner=True)
    targeted_mitra_id = columns.reference("Mitra", null=True)
    cause_tag = columns.reference("KnownCause")
    sub_cause = columns.string(20, null=True, personal=None)
    twin_id = columns.plain_id()  # the other payment request of a customer who paid twice
    amount = columns.number()
    operator_action = columns.string(20, null=True)
    actioned_by = columns.reference("Operator", null=True)
    actioned_at = columns.moment()
    note = columns.text(null=True, personal=NOTE)  # the operator's words, for operators only
    superseded_at = columns.moment()
    # Who works on an open failure, and until when it is put aside. A reference would lock two tables in its migration.
    assigned_to = columns.plain_id()
    snoozed_until = columns.moment()
    created_at = columns.created()

    known_sub_cause = columns.words("sub_cause", SubCause)
    known_action = columns.words("operator_action", OperatorAction)
    action_is_whole = Check(
        "(operator_action IS NULL) = (actioned_by IS NULL) AND (operator_action IS NULL) = (actioned_at IS NULL)"
    )
    acted_stays = Check("operator_action IS NULL OR superseded_at IS NULL")
