"""Write docs/configuration.md and docs/settings.md: every configuration row and every setting, from the code."""

import json
import pathlib
from typing import Any

from core.config.keys import KEYS, Key, Shape
from core.settings.settings import variables

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE, SETTINGS_PAGE = DOCS / "configuration.md", DOCS / "settings.md"
ENV_EXAMPLE = DOCS.parent / ".env.example"
HEAD = """# Configuration rows

Values that operators change while the service runs (`GET` and `PUT /internal/config/:key`). Each process uses a new value within
a second. Made by `make pages` from `core/config/keys.py`, which is also the source for the seed, the validation and the control
center; a test keeps it current. Settings, which come from the environment and are fixed while a process runs, are in
[settings.md](settings.md).

Rows marked *sensitive* (limits of sign-in, lockout, retention) are the area `security` of operators' rights: `config` neither reads
nor changes them, and a change needs a fresh code of the second factor. With `ENVIRONMENT=production` some have narrower bounds; a
value that was stored before counts as the nearest one within them. A shorter retention takes effect a day after the change.
"""
SETTINGS_HEAD = """# Settings

Environment variables. A process reads them once, when it starts, and refuses to start if one is invalid. `sesi settings` shows the
effective values, with secrets masked; `sesi doctor` checks whether they work. Made by `make pages` from `core/settings/settings.py`;
a test keeps it current. Values that operators change while the service runs are in [configuration.md](configuration.md).
`.env.example` has every variable with its default.

A secret may be in a file instead: `JWT_SECRETS_FILE=/run/secrets/jwt` names the file of `JWT_SECRETS`, and so for each
variable that is marked *secret*. Its trailing newline is not part of the secret. Setting both is an error.

## Refused at the start

- **Development secrets on the network.** While `JWT_SECRETS`, `ERASURE_HASH_KEYS`, `RECEIPT_SIGNING_KEYS` or `GATEWAY_CALLBACK_TOKEN` has its development value, every listener
  must be on loopback, whatever `ENVIRONMENT` is. To expose the development routes (`/dev`, `/internal/_test`) on another address,
  set your own secrets and `ALLOW_EXPOSED_DEVELOPMENT=true`. Without it, a request that a proxy on the same machine brings from
  elsewhere gets 403 `EXPOSED_DEVELOPMENT` ([security.md](security.md#exposure)): set `ENVIRONMENT=production` there.
- **Production without a choice of providers.** `GATEWAY_ENABLED`, `OTP_SENDER` and `PUSH_SENDER` must be set there, whatever the value: their
  defaults would start a service without payments, sign-in by phone and pushes. `GATEWAY_ENABLED=false` and `log` are accepted, and
  the overview of the control center then lists them.
- **Test numbers in production without a last day.** An entry of `OTP_TEST_NUMBERS` needs its day there. An entry whose day is over
  does not stop the start: the process logs it and ignores it ([test numbers](product.md#test-numbers)).
- **Plain text in production.** `http://` for identity keys, codes, the gateway or pushes; `redis://` without a password; PostgreSQL with an
  `sslmode` of `disable`, `allow`, `prefer`, or none, because the last three fall back to plain text. Each host of
  `DATABASE_URL` is checked. `sslmode=require` starts, but proves nothing about the server: use `sslmode=verify-full` with `sslrootcert`.
  Loopback and Unix sockets pass. `ALLOW_PLAINTEXT_BACKENDS=true` turns these checks off, for a network that encrypts all traffic.

## All settings

| variable | default | takes |
|---|---|---|
"""
SETTINGS_TAIL = """
## Changing a secret of `JWT_SECRETS`

The service makes new values with the first secret and accepts values of all of them. Access tokens are signed with the secret
itself. The seal of refresh tokens, the hashes of codes and identity tokens, and the account hashes in the log use keys derived from
it, one for each purpose (HKDF).

1. Add the new secret at the end, on every process: values made with it are accepted.
2. Move it to the front, on every process: new values are made with it.
3. Remove the old one after `REFRESH_TOKEN_DAYS`.

Removing a secret earlier signs out the devices that have not refreshed since step 2, because it sealed their refresh tokens.
Access tokens and codes made with it stop working at once. Account hashes in the log change with step 2.
The secrets of operators' second factors are encrypted with a key of the first secret, and encrypted again with each code
that an operator enters. After step 3, an operator who has entered no code since step 2 needs a recovery code, or
`sesi operator reset-totp`. Nothing else is lost, and putting the secret back restores everything.
"""

ENV_HEAD = """# Every setting with its default; docs/settings.md explains them. Made by `make pages` from core/settings/settings.py.
# Copy it to .env and change what you need; secrets are blank here. The service reads its environment, not this file:
# load it with `set -a; . ./.env; set +a`, systemd's EnvironmentFile, or a container's env file.
"""


def _bounds(key: Key) -> str:
    if key.name == "mitra_stale_after_seconds":
        return f"the heartbeat cadence to {key.bounds[1] if key.bounds else ''}"
    if key.bounds is not None:
        there = key.in_production
        return f"{key.bounds[0]} to {key.bounds[1]}" + (f"; in production {there[0]} to {there[1]}" if there else "")
    if key.shape is Shape.FLAG:
        return "true, false"
    if key.shape is Shape.VERSION:
        return "a version such as 1.4.0, or null"
    if key.shape is Shape.NOTICE:
        return "message_id, message_en, until; or null"
    return ", ".join(key.choices) or "a document"


def _row(key: Key) -> str:
    default = json.dumps(key.default, ensure_ascii=False)
    shown = default if len(default) <= 40 else "see `core/config/keys.py`"
    name = f"`{key.name}`" + (" (sensitive)" if key.sensitive else "")
    return f"| {name} | {key.meaning} | {shown} | {key.unit or ''} | {_bounds(key)} |"


def page() -> str:
    """Return the page of the configuration rows."""
    lines = [HEAD]
    for title, used in (("Used", True), ("Legacy: stored, but not used", False)):
        lines += [f"## {title}", "", "| key | meaning | default | unit | values |", "|---|---|---|---|---|"]
        lines += [_row(key) for key in KEYS.values() if key.used is used]
        lines.append("")
    return "\n".join(lines)


def settings_page() -> str:
    """Return the page of the settings."""

    def row(field: Any) -> str:
        default = field.metadata["default"]
        shown = "for development" if field.metadata["secret"] and default else f"`{default}`" if default else ""
        shown += "; none in production" if field.metadata["chosen"] else ""
        shown += f"; `{field.metadata['production']}` in production" if field.metadata["production"] else ""
        takes = field.metadata["expected"] + (" (secret)" if field.metadata["secret"] else "")
        return f"| `{field.name.upper()}` | {shown} | {takes} |"

    return SETTINGS_HEAD + "\n".join(map(row, variables())) + "\n" + SETTINGS_TAIL


def env_example() -> str:
    """Return the text of .env.example: each setting with its default, and secrets blank.

    A secret with a default for development is commented out, because a blank value may mean that there is none. So are
    settings with another default in production, or without one.
    """

    def line(field: Any) -> str:
        default = "" if field.metadata["secret"] else field.metadata["default"] or ""
        secret = " (secret)" if field.metadata["secret"] else ""
        marks = field.metadata
        off = "#" if marks["chosen"] or marks["production"] or (marks["secret"] and marks["default"]) else ""
        return f"\n# {field.metadata['expected']}{secret}\n{off}{field.name.upper()}={default}\n"

    return ENV_HEAD + "".join(map(line, variables()))


if __name__ == "__main__":
    PAGE.write_text(page())
    SETTINGS_PAGE.write_text(settings_page())
    ENV_EXAMPLE.write_text(env_example())
    print(f"docs/configuration.md: {len(KEYS)} rows")
