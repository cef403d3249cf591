"""Run the checks of `sesi doctor` against a service's servers, with other settings."""

from collections.abc import Mapping

from core.settings.environment import read
from core.settings.settings import Settings
from tests.stack import CALLBACK_TOKEN, Stack
from tools.doctor.examination import Options, examine
from tools.doctor.findings import Finding, Result

PRODUCTION = {
    "ENVIRONMENT": "production",
    "GATEWAY_ENABLED": "false",
    "PUSH_SENDER": "log",
    "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
    "PASSWORD_ROUNDS": "11",
    "SESI_TIME_SCALE": "1",
    "DRAIN_SECONDS": "5",
}
RECEIPT_SIGNING_KEYS = "2026a:0b7f64c51de29a38f4c0d6b1827e93a5cf41760e8db2359c6a1f07e4d8b3925c"
ERASURE_HASH_KEYS = "4be1f7c09a3d52e86f10bb27c4d9a6531e7082fd5ca94b36d81f20e97a5c63b4"


def settings_of(stack: Stack, **env: str) -> Settings:
    """Return the settings of a service, with other values of some variables."""
    return read({**stack.env, **env})


async def examined(stack: Stack, options: Options | None = None, /, **env: str) -> list[Finding]:
    """Run all checks."""
    return await examine(settings_of(stack, **env), {**stack.env, **env}, options or Options())


def texts(findings: list[Finding], check: str, result: Result) -> str:
    """Return the texts of a check with this result, joined; an empty text if there are none."""
    return "; ".join(one.text for one in findings if one.check == check and one.result is result)


def ready(variables: Mapping[str, str]) -> Settings:
    """Return settings that need no servers."""
    servers = {"DATABASE_URL": "postgresql://sesi@127.0.0.1/sesi", "REDIS_URL": "redis://127.0.0.1"}
    own = {"OTP_SENDER": "log", "ERASURE_HASH_KEYS": ERASURE_HASH_KEYS, "RECEIPT_SIGNING_KEYS": RECEIPT_SIGNING_KEYS}
    return read({**servers, **own, **variables})
