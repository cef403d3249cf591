"""The checks of what surrounds the processes: ports, stop time, and the folder of the fallback file."""

import os

from core.base.addresses import host_and_port
from core.settings.plaintext import is_loopback
from core.settings.settings import Settings
from tools.commands import environment, up
from tools.doctor.findings import Finding, failure, ok, problems_or, warning
from tools.doctor.postgres import free_space

STOP_MARGIN_S = 10  # for the sockets of the realtime process (docs/operating.md#stopping-and-restarting)


def check(settings: Settings, stop_seconds: int | None) -> list[Finding]:
    """Check the settings of a process that other programs must fit to."""
    return [_stop_time(settings, stop_seconds), *_environment(settings), *_fallback(settings)]


def _stop_time(settings: Settings, stop_seconds: int | None) -> Finding:
    """Compare the supervisor's stop time with what a process may take."""
    check = "stop time"
    needed = settings.drain_seconds + settings.shutdown_grace_seconds + STOP_MARGIN_S
    if stop_seconds is not None and stop_seconds < needed:
        return failure(
            check,
            f"the supervisor kills a process after {stop_seconds} s, but stopping may take {needed} s: raise "
            "TimeoutStopSec, stop_grace_period or terminationGracePeriodSeconds, or lower DRAIN_SECONDS",
        )
    if settings.production and settings.drain_seconds == 0:
        return warning(
            check,
            "DRAIN_SECONDS is 0, so requests fail while a balancer finds out: set it to more than its checks need",
        )
    return ok(check, f"the supervisor must wait {needed} s or more")


def _environment(settings: Settings) -> list[Finding]:
    """Check for an ENVIRONMENT that was forgotten."""
    if settings.production or is_loopback(settings.public_host):
        return []
    return [
        warning(
            "environment",
            f"{settings.environment}, and PUBLIC_HOST is not on loopback, so others reach the development routes: "
            "set ENVIRONMENT=production",
        )
    ]


def _fallback(settings: Settings) -> list[Finding]:
    """Check that the fallback file of webhook calls can be written."""
    check = "webhook fallback"
    if not settings.webhook_fallback_enabled:
        if not settings.production:
            return []
        return [
            warning(
                check, "calls are only stored in the database: set WEBHOOK_FALLBACK_ENABLED and WEBHOOK_FALLBACK_DIR"
            )
        ]
    folder = settings.webhook_fallback_dir
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return [
            failure(check, f"{folder} is no folder that this user may write to: create it, or set WEBHOOK_FALLBACK_DIR")
        ]
    return problems_or(free_space(check, folder))


async def check_ports(settings: Settings) -> list[Finding]:
    """Check that each port is free or has a process of the service."""
    found = []
    for variable, host, port in environment.ports_of(settings):
        if await up.ready(host, port, "/healthz"):  # /readyz is not needed: the other checks cover what it depends on
            found.append(ok(variable, f"{host_and_port(host, port)} answers"))
        elif problem := environment.why_not(variable, host, port):
            found.append(failure(variable, problem))
        else:
            found.append(ok(variable, f"{host_and_port(host, port)} is free"))
    return found
