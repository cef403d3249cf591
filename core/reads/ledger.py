"""The books: every invariant that the database can show (contract 4; reliability I1, I2, I4 to I6)."""

import attrs

from core.runtime import Runtime, away_is_unavailable

# (rule, statement that finds violations as (id, detail)).
CHECKS: tuple[tuple[str, str], ...] = (
    (
        "a paid request is in exactly one place",
        """SELECT p.id::text, format('%s with %s transactions, %s failures, %s chats', p.status, t.n, f.n, s.n + e.n)
           FROM payment_requests p
           CROSS JOIN LATERAL (SELECT count(*) n, count(*) FILTER (WHERE amount = p.amount) good FROM customer_transactions
             WHERE payment_request_id = p.id) t
           CROSS JOIN LATERAL (SELECT count(*) n, count(*) FILTER (WHERE amount = p.amount) good FROM pairing_failures
             WHERE payment_request_id = p.id AND superseded_at IS NULL) f
           CROSS JOIN LATERAL (SELECT count(*) n FROM chat_sessions WHERE payment_request_id = p.id AND paired_at IS NOT NULL) s
           CROSS JOIN LATERAL (SELECT count(*) n FROM session_extensions WHERE payment_request_id = p.id
             AND status IN ('approved', 'auto_approved')) e
           WHERE CASE p.status WHEN 'consumed' THEN NOT (t.n = 1 AND t.good = 1 AND f.n = 0 AND s.n + e.n = 1)
             WHEN 'failed_pairing' THEN NOT (t.n = 0 AND f.n = 1 AND f.good = 1 AND s.n + e.n = 0)
             ELSE NOT (t.n = 0 AND f.n = 0 AND s.n + e.n = 0) END""",
    ),
    (
        "what came in is earned, failed or in flight",
        """SELECT 'all', format('confirmed %s, earned %s, failed %s, in flight %s', a, b, c, d) FROM (
             SELECT (SELECT coalesce(sum(amount), 0) FROM payment_requests WHERE confirmed_at IS NOT NULL) a,
               (SELECT coalesce(sum(amount), 0) FROM customer_transactions WHERE payment_request_id IS NOT NULL) b,
               (SELECT coalesce(sum(amount), 0) FROM pairing_failures WHERE superseded_at IS NULL) c,
               (SELECT coalesce(sum(amount), 0) FROM payment_requests WHERE status = 'confirmed') d) x WHERE a <> b + c + d""",
    ),
    (
        "seq is 1..n without holes",
        """SELECT s.id::text, format('last_seq %s, %s messages, highest %s', s.last_seq, count(m.seq), coalesce(max(m.seq), 0))
           FROM chat_sessions s LEFT JOIN chat_messages m ON m.session_id = s.id GROUP BY s.id, s.last_seq
           HAVING count(m.seq) <> s.last_seq OR coalesce(max(m.seq), 0) <> s.last_seq""",
    ),
    (
        "no message outside the paid time",
        """SELECT m.id::text, format('seq %s of %s', m.seq, m.session_id) FROM chat_messages m JOIN chat_sessions s ON s.id = m.session_id
           WHERE m.created_at < s.paired_at OR m.created_at > s.expires_at""",
    ),
    (
        "one winner, and everybody else is told",
        """SELECT s.id::text, format('%s accepted, %s open', n.accepted, n.open) FROM chat_sessions s
           CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE response = 'ACCEPTED') accepted, count(*) FILTER (WHERE response IS NULL) open,
             count(*) FILTER (WHERE response = 'ACCEPTED' AND mitra_id <> s.mitra_id) wrong
             FROM chat_request_notifications WHERE session_id = s.id) n
           WHERE (s.status <> 'searching' AND n.open > 0) OR n.wrong > 0
             OR (s.mitra_id IS NULL AND n.accepted > 0) OR (s.mitra_id IS NOT NULL AND s.round_number > 0 AND n.accepted <> 1)""",
    ),
    (
        "no mitra has more sessions than was ever allowed",
        """SELECT mitra_id::text, format('%s sessions', count(*)) FROM chat_sessions WHERE status IN ('active', 'expired')
           GROUP BY mitra_id HAVING count(*) > (SELECT max(allowed) FROM (
             SELECT 3 AS allowed
             UNION ALL SELECT (value ->> 'value')::int FROM app_config WHERE key = 'max_customers_per_mitra'
             UNION ALL SELECT (before ->> 'value')::int FROM operator_audit_log WHERE object_id = 'max_customers_per_mitra'
             UNION ALL SELECT (after ->> 'value')::int FROM operator_audit_log WHERE object_id = 'max_customers_per_mitra') x)""",
    ),
    (
        "marks never pass the messages, and read never passes delivered",
        """SELECT id::text, 'marks' FROM chat_sessions WHERE greatest(customer_delivered_seq, mitra_delivered_seq) > last_seq
             OR customer_read_seq > customer_delivered_seq OR mitra_read_seq > mitra_delivered_seq""",
    ),
    (
        "two goodbyes complete a session",
        """SELECT s.id::text, s.status FROM chat_sessions s WHERE s.status NOT IN ('completed')
             AND (SELECT count(*) FROM session_closures c WHERE c.session_id = s.id) >= 2""",
    ),
    (
        "an actioned failure is complete",
        """SELECT id::text, operator_action FROM pairing_failures WHERE operator_action IS NOT NULL
             AND (actioned_by IS NULL OR actioned_at IS NULL)""",
    ),
)


@attrs.frozen(kw_only=True)
class Violation:
    """A broken rule."""

    rule: str
    id: str
    detail: str


@attrs.frozen(kw_only=True)
class Audit:
    """The books of contract 8."""

    sessions: int
    payments: int
    violations: list[Violation]


async def audit(runtime: Runtime) -> Audit:
    """Check every rule over the whole database, in one snapshot."""
    violations = []
    with away_is_unavailable():
        async with (
            runtime.db.pool.acquire(timeout=4) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            await connection.execute("SET LOCAL statement_timeout = '600s'")
            sessions = await connection.fetchval("SELECT count(*)::int FROM chat_sessions", timeout=600)
            payments = await connection.fetchval("SELECT count(*)::int FROM payment_requests", timeout=600)
            for rule, sql in CHECKS:
                for found, detail in await connection.fetch(sql, timeout=600):
                    violations.append(Violation(rule=rule, id=found, detail=detail or ""))
    return Audit(sessions=sessions, payments=payments, violations=violations)
