"""Read the mitras that a visitor of the apps in `/try` may sign in as. Development only."""

import attrs

from core.runtime.container import Runtime
from core.storage import sql_files

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class TrialMitra:
    """An active mitra whose sign-in code is fixed (OTP_TEST_NUMBERS)."""

    phone: str
    display_name: str
    code: str


async def mitras(runtime: Runtime) -> list[TrialMitra]:
    """Return the active mitras with a fixed code that works today, by phone."""
    today = runtime.now().date()
    codes = {one.phone: one.code for one in runtime.settings.otp_test_numbers if one.works_on(today)}
    rows = await runtime.db.fetch(SQL["active"], list(codes))
    return [TrialMitra(phone=row["phone"], display_name=row["display_name"], code=codes[row["phone"]]) for row in rows]
