"""Python and SQL agree about which mitras are available, and about which of them may be asked."""

import contextlib
import datetime as dt

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import (
    AvailabilityPolicy,
    HeartbeatChannel,
    MitraAtCapacity,
    MitraOffline,
    MitraPresence,
    check_available,
)
from core.base import ids
from core.pairing import store as pairing
from core.pairing.catalogue import availability
from core.pairing.rules import Response
from core.sessions.states import SessionStatus
from core.storage.transaction import Tx
from tests.flows.conftest import Harness
from tests.tiers import examples

MICROSECOND = 1e-6
PAIRED = (SessionStatus.ACTIVE, SessionStatus.EXPIRED, SessionStatus.CLOSING, SessionStatus.COMPLETED)
# Triggers are off in these tests, so that rows in any state can be inserted. Constraints are on.
TRIGGERS_OFF = "SET LOCAL session_replication_role = replica"
MITRAS = """INSERT INTO mitras (id, phone, display_name, is_active, created_at)
  SELECT id, '+62' || place, 'Mitra', is_active, $3 FROM unnest($1::uuid[], $2::bool[]) WITH ORDINALITY m(id, is_active, place)"""
PRESENCES = """INSERT INTO mitra_online_status (id, mitra_id, is_online, last_heartbeat_at, heartbeat_channel, updated_at)
  SELECT mitra_id, mitra_id, is_online, $5::timestamptz - make_interval(secs => silence), channel, $5
  FROM unnest($1::uuid[], $2::bool[], $3::float8[], $4::text[]) p(mitra_id, is_online, silence, channel)"""
# Each mitra has an auth session that has ended, and perhaps one that ends in some seconds.
SIGN_INS = """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at, revoked_at)
  SELECT gen_random_uuid(), 'mitra', user_id, gen_random_uuid()::text, $3::timestamptz + make_interval(secs => ends), revoked_at
  FROM unnest($1::uuid[], $2::float8[]) s(user_id, rest)
  CROSS JOIN LATERAL (VALUES (rest, NULL::timestamptz), (60.0, $3), (-1.0, NULL)) x(ends, revoked_at)"""
SEARCH = """INSERT INTO chat_sessions (id, customer_id, status, created_at, round_ends_at, search_ends_at)
  VALUES ($1, $2, 'searching', $3, $3, $3)"""
CUSTOMERS = """INSERT INTO customers (id, is_anonymous, account_belongs_to, created_at)
  VALUES ($1, true, $2, $3), ($2, false, NULL, $3)"""
BLOCKS = """INSERT INTO blocks (id, customer_id, mitra_id, blocked_by, session_id, holds_since, created_at)
  SELECT gen_random_uuid(), $1, mitra_id, blocked_by, $1, $4, $4
  FROM unnest($2::uuid[], $3::text[]) b(mitra_id, blocked_by)"""
SESSIONS = """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, expires_at)
  SELECT id, id, mitra_id, status, $4, $4, $4 FROM unnest($1::uuid[], $2::uuid[], $3::text[]) s(id, mitra_id, status)"""
LEASES = """INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at)
  SELECT place, kind, $4::timestamptz - make_interval(secs => began), $4, $4 + make_interval(secs => lease), $4 + interval '60 s'
  FROM unnest($1::text[], $2::float8[], $3::float8[]) WITH ORDINALITY l(kind, began, lease, place)"""
INVITATIONS = """INSERT INTO chat_request_notifications (id, session_id, mitra_id, notified_at, answer_by, response, responded_at)
  SELECT id, $2, mitra_id, $5, $5, response, CASE WHEN response IS NOT NULL THEN $5::timestamptz END
  FROM unnest($1::uuid[], $3::uuid[], $4::text[]) i(id, mitra_id, response)"""


@attrs.frozen(kw_only=True)
class Candidate:
    """A generated mitra. `silence` is in seconds, and so is `signed_in`, until the auth session ends. `invitations` are those to one session, None for an open one; `blocked_by` is who has blocked the other one of the mitra and its customer's account."""

    id: str
    is_active: bool
    is_online: bool
    signed_in: float
    silence: float
    channel: HeartbeatChannel
    sessions: list[SessionStatus]
    invitations: list[Response | None]
    blocked_by: set[str]


@attrs.frozen(kw_only=True)
class Lease:
    """A generated lease of a process: seconds since it began, and seconds until it ends (negative: it has ended)."""

    kind: str
    began: float
    lease: float


# Leases that excuse no silence.
STEADY = [Lease(kind=kind, began=3_600, lease=2) for kind in ("realtime", "api")]


def near(limit: float) -> st.SearchStrategy[float]:
    """Return a strategy for numbers around a limit: equal, a microsecond or a fraction away, or far."""
    around = st.sampled_from((-1.0, -0.25, -MICROSECOND, 0.0, MICROSECOND, 0.25, 1.0))
    return around.map(lambda by: max(0.0, limit + by)) | st.floats(0, 4 * limit)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[AvailabilityPolicy, list[Candidate], list[Lease]]:
    policy = AvailabilityPolicy(
        require_ping=draw(st.booleans()),
        stale_after_seconds=draw(st.sampled_from((45.0, 60.5, 0.75)) | st.floats(0.01, 100)),
        capacity=draw(st.integers(0, 3)),
    )
    load = st.lists(st.sampled_from(PAIRED), max_size=policy.capacity + 2)
    ended = st.lists(st.sampled_from([one for one in Response if one is not Response.ACCEPTED]), max_size=3)
    candidates = draw(
        st.lists(
            st.builds(
                Candidate,
                id=st.builds(ids.new_id),
                is_active=st.sampled_from((True, True, True, False)),
                is_online=st.sampled_from((True, True, True, False)),
                signed_in=st.sampled_from((60.0, 60.0, MICROSECOND, 0.0, -1.0)),
                silence=near(policy.stale_after_seconds),
                channel=st.sampled_from(HeartbeatChannel),
                sessions=load,
                invitations=ended | ended.map(lambda found: [*found, None]),
                blocked_by=st.just(set()) | st.sets(st.sampled_from(("customer", "mitra"))),
            ),
            min_size=1,
            max_size=10,  # the rules look at each, one at a time
        )
    )
    lease = st.builds(
        Lease,
        kind=st.sampled_from(("realtime", "api")),
        began=st.sampled_from((1.0, 3_600.0)) | near(policy.stale_after_seconds),
        lease=st.sampled_from((2.0, 2.0, -2.0)),
    )
    return policy, candidates, draw(st.just(STEADY) | st.lists(lease, max_size=4))


class RolledBack(Exception):
    """The example is over."""


async def insert(tx: Tx, candidates: list[Candidate], leases: list[Lease]) -> tuple[str, str]:
    """Insert a scene; return the ids of the session that the invitations are for, and of its customer, who has joined an
    account."""
    everyone = [one.id for one in candidates]
    await tx.fetch(TRIGGERS_OFF)
    await tx.fetch("DELETE FROM service_processes")
    await tx.fetch(
        LEASES, [one.kind for one in leases], [one.began for one in leases], [one.lease for one in leases], tx.now
    )
    await tx.fetch(MITRAS, everyone, [one.is_active for one in candidates], tx.now)
    await tx.fetch(
        PRESENCES, everyone, [one.is_online for one in candidates], [one.silence for one in candidates],
        [one.channel.value for one in candidates], tx.now,
    )  # fmt: skip
    await tx.fetch(SIGN_INS, everyone, [one.signed_in for one in candidates], tx.now)
    held = [(one.id, status.value) for one in candidates for status in one.sessions]
    await tx.fetch(
        SESSIONS, [ids.new_id() for _ in held], [mitra for mitra, _ in held], [status for _, status in held], tx.now
    )
    session_id, customer_id, account_id = ids.new_id(), ids.new_id(), ids.new_id()
    await tx.fetch(CUSTOMERS, customer_id, account_id, tx.now)
    await tx.fetch(SEARCH, session_id, customer_id, tx.now)
    blocked = [(one.id, party) for one in candidates for party in one.blocked_by]
    await tx.fetch(BLOCKS, account_id, [mitra for mitra, _ in blocked], [party for _, party in blocked], tx.now)
    made = [(one.id, response) for one in candidates for response in one.invitations]
    await tx.fetch(
        INVITATIONS, [ids.new_id() for _ in made], session_id, [mitra for mitra, _ in made],
        [response for _, response in made], tx.now,
    )  # fmt: skip
    return session_id, customer_id


def is_available(presence: MitraPresence | None, policy: AvailabilityPolicy, now: dt.datetime) -> bool:
    try:
        check_available(presence, policy, now=now)
    except (MitraOffline, MitraAtCapacity):
        return False
    return True


def may_be_asked(candidate: Candidate) -> bool:
    """Return whether an available mitra may be asked (core/pairing/rules.py)."""
    return not candidate.blocked_by and not {None, Response.REJECTED} & set(candidate.invitations)


@given(scenes())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_database_and_rules_agree_on_every_mitra(
    clean_harness: Harness, scene: tuple[AvailabilityPolicy, list[Candidate], list[Lease]]
) -> None:
    policy, candidates, leases = scene

    async def play() -> None:
        with contextlib.suppress(RolledBack):
            async with clean_harness.runtime.transaction() as tx:
                session_id, customer_id = await insert(tx, candidates, leases)
                available, for_customer = set(), set()
                for one in candidates:
                    presence = await mitras.presence(tx, one.id, now=tx.now, customer_id=customer_id)
                    held = [
                        status for status in one.sessions if status in (SessionStatus.ACTIVE, SessionStatus.EXPIRED)
                    ]
                    assert presence is not None
                    assert presence.active_session_count == len(held)
                    assert presence.is_blocked == bool(one.blocked_by)
                    if is_available(presence, policy, tx.now):
                        for_customer.add(one.id)
                    if is_available(attrs.evolve(presence, is_blocked=False), policy, tx.now):
                        available.add(one.id)
                counted = await availability(tx, policy, now=tx.now)
                assert counted.answer.available == len(available)
                is_concerned = any(one.id in available and one.blocked_by for one in candidates)
                assert (customer_id in (counted.with_a_block or ())) == is_concerned
                any_free = await mitras.any_free(tx, policy, now=tx.now, customer_id=customer_id)
                assert any_free == bool(for_customer)
                eligible = {one.id for one in candidates if one.id in available and may_be_asked(one)}
                assert await pairing.anyone_eligible(tx, session_id, policy, now=tx.now) == bool(eligible)
                invited = await pairing.invite(tx, session_id, policy, round_number=1, answer_by=tx.now)
                assert set(invited.mitra_ids) == eligible
                raise RolledBack

    clean_harness.run(play())
