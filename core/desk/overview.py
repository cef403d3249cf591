"""Reads for the overview of the control center."""

import datetime as dt
from typing import Literal

import attrs

from core.accounts.mitras.rules import availability_policy
from core.base import id_ranges
from core.config import rules
from core.desk import present
from core.desk.present import Lateness
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.sessions.states import SessionStatus
from core.storage import sql_files
from core.storage.records import many

# A configuration row or a setting without which customers or mitras can't be served.
Gap = Literal["support_handles", "gateway_enabled", "otp_sender", "push_sender"]
HOUR = dt.timedelta(hours=1)
SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Hour:
    """The chats, payments and failed pairings of one hour. Amounts are in Rupiah."""

    at: dt.datetime
    chats: int
    paid_amount: int
    failures: int


@attrs.frozen(kw_only=True)
class Overview:
    """The figures of the overview page. Amounts are in Rupiah. `absent`: chats in which a party is absent.

    `not_set_up`: what operators or administrators have to set before customers can be served. `operators_locked`:
    operators who can't sign in because of failed sign-ins.
    """

    mitras_online: int
    mitras_busy: int
    mitras_free: int
    searching: int
    active: int
    expired: int
    closing: int
    absent: int
    failures_open: int
    failures_open_amount: int
    failures_oldest_at: dt.datetime | None
    pending_payments: int
    confirmed_amount_24h: int
    webhook_errors_last_hour: int
    not_set_up: list[Gap]
    operators_locked: int
    sweeps: list[Lateness]
    hours: list[Hour]


def gaps(runtime: Runtime) -> list[Gap]:
    """Return what is not set up: contacts that are the seed's, no gateway, codes or pushes that are only logged."""
    settings = runtime.settings
    unset: dict[Gap, bool] = {
        "support_handles": rules.has_placeholder(runtime.config.values["support_handles"]),
        "gateway_enabled": not settings.gateway_enabled,
        "otp_sender": settings.otp_sender == "log",
        "push_sender": settings.push_sender == "log",
    }
    return [gap for gap, missing in unset.items() if missing]


async def overview(runtime: Runtime) -> Overview:
    """Return the figures of the overview page."""
    now, policy = runtime.now(), availability_policy(runtime.config)
    with translate_db_errors():
        work = await present.present(runtime.db, policy, now=now)
        row = await runtime.db.fetchrow(SQL["figures"], now, id_ranges.since(now - HOUR, scale=runtime.clock.scale))
        hours = many(Hour, await runtime.db.fetch(SQL["hours"], now))
        sweeps = await present.overdue(runtime.db, now=now)
    return Overview(
        **dict(row),
        mitras_online=sum(work.mitras.values()) - work.mitras["offline"],
        mitras_free=work.mitras["available"],
        searching=work.sessions[SessionStatus.SEARCHING],
        active=work.sessions[SessionStatus.ACTIVE],
        expired=work.sessions[SessionStatus.EXPIRED],
        closing=work.sessions[SessionStatus.CLOSING],
        failures_open=sum(one.count for one in work.failures),
        failures_open_amount=sum(one.amount for one in work.failures),
        failures_oldest_at=present.oldest_at(work.failures),
        pending_payments=work.payments[PaymentStatus.PENDING],
        not_set_up=gaps(runtime),
        sweeps=sweeps,
        hours=hours,
    )
