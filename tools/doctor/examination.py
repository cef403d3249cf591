"""`sesi doctor`: checks the settings, the machine and the servers, and says how to fix problems (docs/doctor.md)."""

import asyncio
import os
import pathlib
from collections.abc import Mapping

import attrs

from core.settings.settings import Settings, SettingsError
from tools.commands import environment
from tools.doctor import (
    backup_age,
    clocks,
    database,
    limits,
    postgres,
    processes,
    providers,
    proxies,
    public,
    redis,
    secrets,
    tls,
)
from tools.doctor.findings import Finding, Result, failure, ok


@attrs.frozen(kw_only=True)
class Options:
    """What the settings do not say: the public address of the service, the supervisor's stop time in seconds, and the
    stanza of pgBackRest with its configuration file (None: the usual one)."""

    url: str | None = None
    stop_seconds: int | None = None
    stanza: str | None = None
    backup_config: pathlib.Path | None = None


NO_OPTIONS = Options()


async def examine(
    settings: Settings, environ: Mapping[str, str] = os.environ, options: Options = NO_OPTIONS
) -> list[Finding]:
    """Run all checks. `environ`: the variables, which name the files of secrets."""
    found = [
        *secrets.check(settings, environ),
        *processes.check(settings, options.stop_seconds),
        *proxies.networks(settings),
        *limits.check(settings),
        *tls.check_urls(settings),
    ]
    reached = await database.reach(settings)
    found.append(reached)
    answers = reached.result is not Result.FAILURE
    if answers:
        for check in (database.check, postgres.check, tls.check_database):
            found += await database.answered(settings, check)
    found += await redis.check(settings)
    found += await clocks.check(settings, database_answers=answers)
    found += backup_age.check(settings, options.stanza, options.backup_config)
    found += await processes.check_ports(settings)
    if options.url is not None:
        found += await public.check(options.url)
        found += await proxies.address_seen(settings, options.url, database_answers=answers)
    return found + await providers.check(settings)


def run(options: Options = NO_OPTIONS) -> list[Finding]:
    """Read the settings and run all checks."""
    try:
        settings = environment.read()
    except SettingsError as error:
        return [failure("settings", str(error))]
    return [ok("settings", settings.environment), *asyncio.run(examine(settings, os.environ, options))]
