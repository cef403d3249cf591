"""Reads about mitras' activity."""

import datetime as dt
from typing import Any

import attrs

from core.base import id_ranges
from core.base.errors import ValidationFailed
from core.base.field_types import Id, Person, SessionId
from core.base.languages import Text
from core.base.pages import Page, ReportItems, as_report, cut, rounded_lag
from core.desk import newest_first
from core.pairing.rules import Response
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.conditions import Conditions
from core.storage.records import as_dict
from core.storage.reports import ReportRows

USUAL = dt.timedelta(days=30)  # the default range of the summary
# By how much a session may be older than its invitations: a search lasts a day at most (`searching_timeout_minutes`).
SEARCH = dt.timedelta(days=3)
EARLIEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)  # no data is older; keeps a range from beginning before the year 1


@attrs.frozen(kw_only=True)
class ActivityRow:
    """One invitation of one mitra.

    `lost_by_ms`: how many milliseconds after another mitra this one accepted; null unless they did.
    """

    id: Id
    session_id: SessionId
    mitra: Person
    notified_at: dt.datetime
    responded_at: dt.datetime | None
    response: Response | None = attrs.field(converter=attrs.converters.optional(Response))
    active_session_count: int
    lost_by_ms: int | None


@attrs.frozen(kw_only=True)
class ActivityFilter:
    """Whose invitations to list, and from when to when; the end is excluded."""

    mitra_id: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None


SQL = sql_files.load(__file__)
LOG = f"""{SQL["invitations"]}
WHERE {{where}}
ORDER BY n.notified_at DESC, n.id DESC
LIMIT {{limit}}"""


def log_query(page: Page, which: ActivityFilter, begin: dt.datetime | None, scale: float = 1) -> tuple[str, list[Any]]:
    """Return (SQL, arguments) of the activity log, with invitations from `begin` on; None: with all.

    `scale` is that of service time.
    """
    where = Conditions()
    where.add("n.mitra_id = {0}", which.mitra_id)
    where.add("n.notified_at >= {0}", begin)
    where.add("n.notified_at < {0}", which.until)
    where.behind("n.notified_at", "n.id", before_at=page.before_at, before_id=page.before_id)
    end = newest_first.end_of(page, which.until)
    where.within(
        "n.session_id",
        begin_id=begin and id_ranges.since(begin, older=SEARCH, scale=scale),
        end_id=end and id_ranges.until(end, scale=scale),
    )
    limit = where.arg(page.limit + 1)
    return LOG.format(where=where, limit=limit), where.args


async def log(runtime: Runtime, page: Page, which: ActivityFilter) -> ReportItems[ActivityRow]:
    """List invitations, newest first."""
    report = await _log(runtime, page, which)
    found = []
    for row in report.rows:
        values = as_dict(row)
        mitra = Person(id=values.pop("mitra_id"), display_name=values.pop("display_name"))
        found.append(ActivityRow(**values, mitra=mitra))
    return as_report(cut(found, page, at="notified_at"), lag_s=report.lag_s)


async def _log(runtime: Runtime, page: Page, which: ActivityFilter) -> ReportRows:
    begins = list(newest_first.begins(page, since=which.since, until=which.until, now=runtime.now()))
    for begin in begins[:-1]:
        statement, args = log_query(page, which, begin, runtime.clock.scale)
        report = await runtime.reports.fetch(statement, *args)
        if len(report.rows) > page.limit:
            return report
    statement, args = log_query(page, which, begins[-1], runtime.clock.scale)
    return await runtime.reports.fetch(statement, *args)


@attrs.frozen(kw_only=True)
class ActivitySummary:
    """One mitra's figures in a range of time, which may be shown to them.

    A search that asked the mitra in several rounds counts once, with their last response. `acceptance_rate` is
    accepted / (accepted + rejected + ignored), from 0 to 1; null if all three are 0. `share_per_hour_online` is how
    many sessions began for each hour online; null without online time. `median_answer_ms` is the median time from a
    request to their acceptance or refusal; null without one. `lost` is how often another mitra accepted before they
    did, and `lost_by_ms` the median time by which; null if they never lost. `earned_idr` is what was earned with the
    sessions that began in the range, with their extensions and less what was refunded. `online_since` is since when the
    mitra has been online now; null while they are offline.
    """

    mitra: Person
    online_since: dt.datetime | None
    notified: int
    accepted: int
    rejected: int
    missed: int
    ignored: int
    acceptance_rate: float | None
    sessions: int
    sensitive_sessions: int
    online_seconds: int
    share_per_hour_online: float | None
    median_answer_ms: int | None
    lost: int
    lost_by_ms: int | None
    earned_idr: int


# Parameters: $1 and $2 the range, $3 now, $4 and $5 the bounds of the sessions that can have invitations in the range,
# $6 the mitra. A search counts once for each mitra that it asked in the range, with the newest invitation of them.
# Invitations, answers and sessions of the range are read from indexes alone; each session takes a look-up of its
# earnings. An online interval lasts from one log row to the next; the last row before the range gives the status at its
# start.
_SUMMARY = """WITH searches AS (
  SELECT DISTINCT ON (session_id, mitra_id)
    mitra_id,
    response
  FROM chat_request_notifications
  WHERE notified_at >= $1 AND notified_at < $2 AND session_id >= $4 AND session_id < $5{of_one}
  ORDER BY session_id, mitra_id, notified_at DESC
),
asked AS (
  SELECT
    mitra_id,
    count(*)::int AS notified,
    count(*) FILTER (WHERE response = 'ACCEPTED')::int AS accepted,
    count(*) FILTER (WHERE response = 'REJECTED')::int AS rejected,
    count(*) FILTER (WHERE response = 'MISSED')::int AS missed,
    count(*) FILTER (WHERE response = 'IGNORED')::int AS ignored
  FROM searches
  GROUP BY mitra_id
),
answers AS (
  SELECT
    mitra_id,
    percentile_disc(0.5) WITHIN GROUP (
      ORDER BY CASE WHEN lost_by_ms IS NULL THEN round(extract(epoch FROM responded_at - notified_at) * 1000)::int END
    ) AS median_answer_ms,
    count(lost_by_ms)::int AS lost,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY lost_by_ms) AS lost_by_ms
  FROM chat_request_notifications
  WHERE
    notified_at >= $1
    AND notified_at < $2
    AND session_id >= $4
    AND session_id < $5
    AND (response IN ('ACCEPTED', 'REJECTED') OR lost_by_ms IS NOT NULL){of_one}
  GROUP BY mitra_id
),
chats AS (
  SELECT
    mitra_id,
    count(*)::int AS sessions,
    count(*) FILTER (WHERE topic_sensitivity = 'sensitive')::int AS sensitive_sessions
  FROM chat_sessions
  WHERE paired_at >= $1 AND paired_at < $2{of_one}
  GROUP BY mitra_id
),
earned AS (
  SELECT
    s.mitra_id,
    sum(t.amount)::bigint AS earned_idr
  FROM chat_sessions AS s
  CROSS JOIN LATERAL (
    SELECT sum(amount) AS amount
    FROM customer_transactions
    WHERE session_id = s.id
  ) AS t
  WHERE s.paired_at >= $1 AND s.paired_at < $2{of_one}
  GROUP BY s.mitra_id
),
turns AS (
  SELECT
    l.mitra_id,
    l.status,
    l."timestamp" AS at,
    l.id AS place
  FROM mitra_online_logs AS l
  WHERE l."timestamp" >= $1 AND l."timestamp" < $2{of_one}
  UNION ALL
  SELECT
    m.id,
    b.status,
    $1,
    NULL
  FROM mitras AS m
  CROSS JOIN LATERAL (
    SELECT status
    FROM mitra_online_logs AS l
    WHERE l.mitra_id = m.id AND l."timestamp" < $1
    ORDER BY l."timestamp" DESC, l.id DESC
    LIMIT 1
  ) AS b
  {one}
),
online AS (
  SELECT
    mitra_id,
    coalesce(sum(extract(epoch FROM until - at)) FILTER (WHERE status = 'online'), 0)::int AS online_seconds
  FROM (
    SELECT
      mitra_id,
      status,
      at,
      lead(at, 1, least($2, greatest($1, $3))) OVER (PARTITION BY mitra_id ORDER BY at, place NULLS FIRST) AS until
    FROM turns
  ) AS t
  WHERE until > at
  GROUP BY mitra_id
)
SELECT
  m.id,
  m.display_name,
  CASE WHEN s.is_online THEN s.last_online_at END AS online_since,
  coalesce(a.notified, 0) AS notified,
  coalesce(a.accepted, 0) AS accepted,
  coalesce(a.rejected, 0) AS rejected,
  coalesce(a.missed, 0) AS missed,
  coalesce(a.ignored, 0) AS ignored,
  round(a.accepted::numeric / nullif(a.accepted + a.rejected + a.ignored, 0), 4)::float AS acceptance_rate,
  coalesce(c.sessions, 0) AS sessions,
  coalesce(c.sensitive_sessions, 0) AS sensitive_sessions,
  coalesce(o.online_seconds, 0) AS online_seconds,
  round(coalesce(c.sessions, 0) * 3600.0 / nullif(o.online_seconds, 0), 4)::float AS share_per_hour_online,
  w.median_answer_ms,
  coalesce(w.lost, 0) AS lost,
  w.lost_by_ms,
  coalesce(e.earned_idr, 0) AS earned_idr
FROM mitras AS m
LEFT JOIN mitra_online_status AS s ON s.mitra_id = m.id
LEFT JOIN asked AS a ON a.mitra_id = m.id
LEFT JOIN answers AS w ON w.mitra_id = m.id
LEFT JOIN earned AS e ON e.mitra_id = m.id
LEFT JOIN chats AS c ON c.mitra_id = m.id
LEFT JOIN online AS o ON o.mitra_id = m.id
{one}
ORDER BY coalesce(a.notified, 0) DESC, m.display_name, m.id"""
SUMMARY = _SUMMARY.format(of_one="", one="")
SUMMARY_OF_ONE = _SUMMARY.format(of_one=" AND mitra_id = $6", one="WHERE m.id = $6")


def summary_args(begin: dt.datetime, end: dt.datetime, now: dt.datetime, scale: float = 1) -> list[Any]:
    """Return the arguments of SUMMARY, which are the first ones of SUMMARY_OF_ONE. `scale` is that of service time."""
    return [begin, end, now, id_ranges.since(begin, older=SEARCH, scale=scale), id_ranges.until(end, scale=scale)]


async def summary(
    runtime: Runtime, *, since: dt.datetime | None, until: dt.datetime | None, mitra_id: str | None = None
) -> ReportItems[ActivitySummary]:
    """Return the figures of every mitra, or of one, between `since` and `until`; by default the last 30 days.

    Raises ValidationFailed if the range is empty.
    """
    now = runtime.now()
    end = until or now
    begin = since or max(end, EARLIEST) - USUAL
    if begin >= end:
        raise ValidationFailed.of("to", Text(en="must be after `from`", id="harus setelah `from`"))
    args = summary_args(begin, end, now, runtime.clock.scale)
    if mitra_id is None:
        report = await runtime.reports.fetch(SUMMARY, *args)
    else:
        report = await runtime.reports.fetch(SUMMARY_OF_ONE, *args, mitra_id)
    found = []
    for row in report.rows:
        values = as_dict(row)
        found.append(
            ActivitySummary(mitra=Person(id=values.pop("id"), display_name=values.pop("display_name")), **values)
        )
    return ReportItems(items=found, replica_lag_seconds=rounded_lag(report.lag_s))
