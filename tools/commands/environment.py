"""The settings of a command: from the environment, with the embedded servers' addresses where no URL is set."""

import errno
import os
import socket

import attrs

from core.base.addresses import host_and_port
from core.settings import environment
from core.settings import settings as settings_module
from core.settings.settings import Settings, SettingsError
from tools.embedded import ownership


def read(*, servers: bool = True) -> Settings:
    """Read the settings. With `servers`, missing URLs are those of the embedded servers that run in SESI_DATA_DIR.

    Raises SettingsError if a URL is neither set nor found.
    """
    settings = environment.read(os.environ)
    if not servers or (settings.database_url and settings.redis_url):
        return settings
    running = ownership.running(settings.sesi_data_dir)
    if running is None:
        missing = "DATABASE_URL" if not settings.database_url else "REDIS_URL"
        raise SettingsError(
            f"{missing}: expected a URL, or embedded servers running in {settings.sesi_data_dir}: start `sesi up`"
        )
    return attrs.evolve(
        settings,
        database_url=settings.database_url or running.database_url,
        redis_url=settings.redis_url or running.redis_url,
    )


def without_settings() -> dict[str, str]:
    """Return the environment without Sesi settings, so that a temporary service can't call the developer's gateway."""
    ours = settings_module.names() | settings_module.file_names()
    return {name: value for name, value in os.environ.items() if name not in ours}


def not_in_production(settings: Settings) -> None:
    """Raise SettingsError in production, for commands that make up users or payments."""
    if settings.production:
        raise SettingsError("ENVIRONMENT: expected development or test: this command makes up users or payments")


def why_not(variable: str, host: str, port: int) -> str | None:
    """Return why a port can't be bound and which variable to change, or None if it can be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"{variable}: expected a free port, {host_and_port(host, port)} is in use"
            return f"{variable.replace('_PORT', '_HOST')}: expected an address to listen on, got {host!r} ({error.strerror})"
    return None


def ports_of(settings: Settings) -> list[tuple[str, str, int]]:
    """Return (variable of the port, host, port) of every listener."""
    return [
        ("PUBLIC_PORT", settings.public_host, settings.public_port),
        ("INTERNAL_PORT", settings.internal_host, settings.internal_port),
        ("REALTIME_PORT", settings.realtime_host, settings.realtime_port),
        ("JOBS_PORT", settings.jobs_host, settings.jobs_port),
    ]
