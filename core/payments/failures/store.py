"""Writes and locking reads of pairing failures."""

import datetime as dt

import attrs

from core.base import ids
from core.payments.failures.causes import CauseTag, SubCause, Why
from core.payments.failures.rules import OperatorAction
from core.payments.failures.tables import KnownCause
from core.payments.failures.tables import PairingFailure as Failures
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class Live:
    """The one failure of a payment request that is not superseded."""

    id: str
    cause_tag: CauseTag = attrs.field(converter=CauseTag)
    sub_cause: SubCause | None = attrs.field(converter=attrs.converters.optional(SubCause))
    operator_action: str | None


@attrs.frozen(kw_only=True)
class Failure:
    """A failure, whether or not it is superseded. `amount` is in Rupiah."""

    id: str
    payment_request_id: str
    amount: int
    operator_action: str | None
    superseded_at: dt.datetime | None
    assigned_to: str | None
    snoozed_until: dt.datetime | None
    note: str | None


KNOW = statement(insert(KnownCause, "tag").on_conflict(KnownCause.tag, "DO NOTHING"))
CREATE = statement(
    insert(
        Failures, "id payment_request_id customer_id targeted_mitra_id cause_tag sub_cause twin_id amount created_at"
    )
)
ACT = statement(
    Failures.update(operator_action=p.action, actioned_by=p.operator_id, actioned_at=p.now, note=p.note)
    .where(Failures.id == p.id, Failures.operator_action.is_null(), Failures.superseded_at.is_null())
    .returning(Failures.payment_request_id)
)
LOCK_LIVE = statement(
    Failures.select(*columns_of(Failures, Live))
    .where(Failures.payment_request_id == p.payment_request_id, Failures.superseded_at.is_null())
    .lock_rows("UPDATE"),
    Live,
)
CHANGE = statement(
    Failures.update(cause_tag=p.cause_tag, sub_cause=p.sub_cause, twin_id=p.twin_id, amount=p.amount).where(
        Failures.id == p.id, Failures.operator_action.is_null(), Failures.superseded_at.is_null()
    )
)
PLAN = statement(
    Failures.update(assigned_to=p.assigned_to, snoozed_until=p.snoozed_until, note=p.note).where(Failures.id == p.id)
)
SUPERSEDE = statement(
    Failures.update(superseded_at=p.now).where(
        Failures.id == p.id, Failures.superseded_at.is_null(), Failures.operator_action.is_null()
    )
)
LOCK = statement(
    Failures.select(*columns_of(Failures, Failure)).where(Failures.id == p.id).lock_rows("UPDATE"), Failure
)


async def seed_causes(tx: Tx) -> None:
    """Add the cause tags that are missing. None is removed, because failures of earlier versions may have it."""
    for tag in CauseTag:
        await KNOW.execute(tx, tag=tag)


async def create(
    tx: Tx,
    *,
    payment_request_id: str,
    customer_id: str,
    targeted_mitra_id: str | None,
    why: Why,
    amount: int,
) -> str:
    """Insert the one live failure of a payment request and return its id. `amount` is in Rupiah."""
    failure_id = ids.new_id()
    await CREATE.execute(
        tx,
        id=failure_id,
        payment_request_id=payment_request_id,
        customer_id=customer_id,
        targeted_mitra_id=targeted_mitra_id,
        cause_tag=why.cause,
        sub_cause=why.sub_cause,
        twin_id=why.twin_id,
        amount=amount,
        created_at=tx.now,
    )
    return failure_id


async def act(tx: Tx, failure_id: str, action: OperatorAction, *, operator_id: str, note: str | None) -> str | None:
    """Record an operator's action and return the id of the payment request.

    Return None for an unknown id, or if an operator has acted on it or it is superseded.
    """
    return await ACT.value(tx, id=failure_id, action=action, operator_id=operator_id, now=tx.now, note=note)


async def change(tx: Tx, failure_id: str, why: Why, *, amount: int) -> None:
    """Change the cause and the amount of a failure on which no operator has acted. The caller must hold its lock."""
    await CHANGE.execute(
        tx, id=failure_id, cause_tag=why.cause, sub_cause=why.sub_cause, twin_id=why.twin_id, amount=amount
    )


async def plan(
    tx: Tx, failure_id: str, *, assigned_to: str | None, snoozed_until: dt.datetime | None, note: str | None
) -> None:
    """Store who works on a failure, until when it is put aside, and a note. The caller must hold its lock."""
    await PLAN.execute(tx, id=failure_id, assigned_to=assigned_to, snoozed_until=snoozed_until, note=note)


async def lock_live(tx: Tx, payment_request_id: str) -> Live | None:
    """Read and lock a payment request's live failure, because an operator may be about to act on it.

    None without one.
    """
    return await LOCK_LIVE.first(tx, payment_request_id=payment_request_id)


async def supersede(tx: Tx, failure_id: str) -> bool:
    """Mark a failure as superseded, because the customer tries again. It is never deleted.

    Return False if it is superseded already or an operator has acted on it.
    """
    return bool(await SUPERSEDE.execute(tx, id=failure_id, now=tx.now))


async def lock(tx: Tx, failure_id: str) -> Failure | None:
    """Lock a failure and return it; None for an unknown id."""
    return await LOCK.first(tx, id=failure_id)
