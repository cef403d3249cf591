"""`sesi try`: runs the service to try it out in a browser, with two mitras and temporary data."""

import asyncio
import os
import pathlib
import shutil
import tempfile
from typing import Any

from core.base.addresses import host_and_port
from core.config.keys import KEYS
from core.desk import setup
from core.runtime.container import Runtime
from core.settings import settings as settings_module
from core.settings.settings import Settings
from tools.commands import environment
from tools.commands.children import console
from tools.commands.up import Edition, up

# (phone, code) of each mitra; the names are those of setup.DEMO_MITRAS.
CODES = (("+6281200000001", "111111"), ("+6281200000002", "222222"))
# In these times a person does something, or a browser sends heartbeats, so they last as long as in production.
REACTIONS = (
    "mitra_stale_after_seconds",
    "pairing_blast_timeout_seconds",
    "returning_chat_confirmation_timeout_seconds",
    "extension_timeout_seconds",
    "searching_timeout_minutes",
    "payment_session_timeout_minutes",
)
# Settings in seconds of service time, with the largest value that they may have.
TIMES = {"access_token_seconds": 86_400, "mitra_heartbeat_cadence_seconds": 1_800}
CODES_AN_HOUR = 1_000  # one visitor is every user, and signs in often


def rows(scale: float) -> dict[str, Any]:
    """Return the configuration of a trial: reaction times in real time, as far as the bounds of the rows allow."""
    found: dict[str, Any] = {"otp_max_per_phone_per_hour": CODES_AN_HOUR, "otp_max_per_ip_per_hour": CODES_AN_HOUR}
    for name in REACTIONS:
        bounds = KEYS[name].bounds
        assert bounds is not None
        found[name] = min(int(bounds[1]), int(KEYS[name].default * scale))
    return found


def variables(scale: float, folder: pathlib.Path) -> dict[str, str]:
    """Return the settings of a trial, of which those that clients feel last as long as in production."""
    defaults = {
        field.name: float(field.metadata["default"]) for field in settings_module.variables() if field.name in TIMES
    }
    return {
        "ENVIRONMENT": "development",
        "DEVELOPMENT_IDENTITIES": "true",
        "SESI_DATA_DIR": str(folder),
        "SESI_TIME_SCALE": f"{scale:g}",
        "OTP_TEST_NUMBERS": ",".join(f"{phone}:{code}" for phone, code in CODES),
        "OPERATOR_REFRESH_TOKEN_HOURS": "720",
        **{name.upper(): str(min(most, int(defaults[name] * scale))) for name, most in TIMES.items()},
    }


class Trial(Edition):
    """What `sesi try` adds to `sesi up`: its configuration, two mitras, and where to begin."""

    def __init__(self, scale: float) -> None:
        self.rows = rows(scale)
        self._administrator = ""

    async def seed(self, runtime: Runtime) -> None:
        """Add the mitras."""
        await setup.seed_mitras(runtime, [person for person in setup.DEMO_MITRAS if person[0] in dict(CODES)])

    def show_administrator(self, email: str, password: str) -> None:
        """Keep the sign-in, which is shown next to the address of the control center."""
        self._administrator = f"{email}  {password}"

    def show(self, settings: Settings) -> None:
        """Print where to begin."""
        public = f"http://{host_and_port(settings.public_host, settings.public_port)}"
        internal = f"http://{host_and_port(settings.internal_host, settings.internal_port)}"
        names = dict(setup.DEMO_MITRAS)
        places = [
            ("apps", f"{public}/try/"),
            *((f"mitra {names[phone]}", f"{phone}, code {code}") for phone, code in CODES),
            ("codes, pushes, invoices", f"{public}/dev/inbox"),
            ("control center", f"{internal}/internal/"),
            ("", self._administrator),
        ]
        lines = [f"{what:<25}{where}" for what, where in places]  # a narrow window would cut a table
        speed = f"Sesi is running, {settings.sesi_time_scale:g} times as fast as real time."
        console.print("\n".join([speed, "", *lines, ""]), soft_wrap=True, markup=False)
        console.print("Ctrl-C stops it and deletes its data.")


def run(scale: float) -> int:
    """Run until SIGTERM or Ctrl-C; return the exit code. It takes only ports and hosts from the environment."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-try-"))
    folder.chmod(0o711)  # under root, PostgreSQL runs as another user, who must be able to enter its folder
    for name in settings_module.names() | settings_module.file_names():
        if not name.endswith(("_PORT", "_HOST")):
            os.environ.pop(name, None)
    os.environ.update(variables(scale, folder))
    try:
        return asyncio.run(up(environment.read(servers=False), Trial(scale)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
