"""The checks of secrets: their strength, their files, and what production should not have (docs/secrets.md)."""

import collections
import math
import pathlib
import stat
import urllib.parse
from collections.abc import Mapping

from core.base.addresses import database_urls
from core.settings.settings import Settings, file_names
from tools.doctor.findings import Finding, failure, ok, problems_or, warning

LEAST_BITS = 80.0  # estimated from the characters alone, which is too much for words of a language
HEX = "generate it with `openssl rand -hex 32`"
# Who guesses one of these can sign in as anyone, report payments, or sign receipts.
FORGED = ("JWT_SECRETS", "RECEIPT_SIGNING_KEYS", "GATEWAY_CALLBACK_TOKEN")
OTHERS_READ = stat.S_IROTH
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Check the secrets of the settings and the files that hold them."""
    found = _files(settings, environ)
    if settings.production:
        found += [*_strength(settings), *_webhook(settings), *_test_numbers(settings)]
    return found


def bits_of(secret: str) -> float:
    """Estimate a secret's strength by how often each character occurs; never less than it really has if it is
    random."""
    counts = collections.Counter(secret).values()
    return -sum(count * math.log2(count / len(secret)) for count in counts)


def _texts(settings: Settings) -> list[tuple[str, str]]:
    """Return (variable, secret) of each secret that we or the administrator chose."""
    texts = [("JWT_SECRETS", secret.decode(errors="replace")) for _, secret in settings.jwt_secrets]
    texts += [("RECEIPT_SIGNING_KEYS", seed.hex()) for _, seed in settings.receipt_signing_keys]
    texts += [("GATEWAY_CALLBACK_TOKEN", token) for token in settings.gateway_callback_token]
    for variable in ("otp_http_token", "gateway_secret_key", "twilio_api_secret"):
        if text := getattr(settings, variable):
            texts.append((variable.upper(), text))
    return texts


def _strength(settings: Settings) -> list[Finding]:
    failures, warnings = [], []
    texts = _texts(settings)
    for variable, text in texts:
        if bits_of(text) >= LEAST_BITS:
            continue
        problem = f"{variable} can be guessed: {HEX}, and see docs/secrets.md"
        (failures if variable in FORGED else warnings).append(problem)
    twice = [text for text, count in collections.Counter(text for _, text in texts).items() if count > 1]
    for text in twice:
        names = " and ".join(variable for variable, other in texts if other == text)
        warnings.append(f"{names} have the same secret: use a separate one for each")
    for url in database_urls(settings.database_url)[:1]:
        if (password := urllib.parse.urlsplit(url).password) and bits_of(password) < LEAST_BITS / 2:
            warnings.append(f"the password in DATABASE_URL can be guessed: {HEX}")
    return problems_or(ok("secrets", "none can be guessed easily"), failures=failures, warnings=warnings)


def _webhook(settings: Settings) -> list[Finding]:
    if settings.gateway_callback_token:
        return []
    return [
        failure("secrets", "GATEWAY_CALLBACK_TOKEN is empty, so every webhook call is refused: set the gateway's token")
    ]


def _test_numbers(settings: Settings) -> list[Finding]:
    if not settings.otp_test_numbers:
        return []
    return [
        warning(
            "test numbers",
            f"{len(settings.otp_test_numbers)} numbers sign in with a fixed code: remove OTP_TEST_NUMBERS after the review",
        )
    ]


def _files(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Check who may read and change the files with secrets."""
    paths = {name: environ[name] for name in sorted(file_names()) if environ.get(name)}
    if settings.fcm_credentials_file:
        paths["FCM_CREDENTIALS_FILE"] = settings.fcm_credentials_file
    failures, warnings = [], []
    for name, text in paths.items():
        path = pathlib.Path(text)
        if not path.is_file():
            continue  # the settings, or the check of the push sender, refuse it
        mode = path.stat().st_mode
        if mode & OTHERS_WRITE:
            failures.append(f"{name}: other users may write to {path}: chmod 600, owned by the user of the service")
        elif mode & OTHERS_READ:
            warnings.append(
                f"{name}: every user of this machine may read {path}: chmod 600, owned by the user of the service"
            )
    if not paths:
        return []
    return problems_or(ok("secret files", f"{len(paths)} files, private"), failures=failures, warnings=warnings)
