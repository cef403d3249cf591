"""Failed logins of operators, counted by the configured limits (specification, Authentication 6)."""

import datetime as dt

from core.config.cache import Config
from core.operators import rules


def after_failure(
    config: Config, *, failed_before: int, lockout_until: dt.datetime | None, now: dt.datetime
) -> tuple[int, dt.datetime | None]:
    """Return the count and lockout after one more failed login, as they are configured now."""
    return rules.after_failure(
        failed_before=failed_before,
        lockout_until=lockout_until,
        limit=config.number("cc_login_max_attempts"),
        lockout=config.minutes("cc_login_lockout_minutes"),
        now=now,
    )
