"""Read the settings from environment variables, and check that they fit together (docs/settings.md)."""

import pathlib
from collections.abc import Mapping
from typing import Any

from core.settings import fixed_codes, parsers
from core.settings.fixed_codes import WrongEntry
from core.settings.plaintext import database_in_plaintext, http_in_plaintext, is_loopback, redis_without_password
from core.settings.settings import (
    CALLBACK_TOKEN_LENGTH,
    DEVELOPMENT_CALLBACK_TOKEN,
    DEVELOPMENT_RECEIPT_SEED,
    Settings,
    SettingsError,
    variables,
)

LONGEST_SECRET_FILE = 65_536  # in bytes; a larger file is not a secret and may be endless, such as /dev/zero
EVERYWHERE = frozenset({"0.0.0.0", "::"})
HTTP_BACKENDS = (
    "identity_a_jwks_url",
    "identity_b_jwks_url",
    "otp_http_url",
    "twilio_verify_base_url",
    "gateway_base_url",
    "fcm_base_url",
)
SAMPLERS = tuple(
    f"{prefix}{kind}" for prefix in ("", "parentbased_") for kind in ("always_on", "always_off", "traceidratio")
)


def read(environ: Mapping[str, str]) -> Settings:
    """Read and check all settings; a secret may be in a file that NAME_FILE names.

    Raises SettingsError with one line for the first variable that is wrong.
    """
    values: dict[str, Any] = {}
    for field in variables():
        name = field.name.upper()
        text = environ.get(name)
        if text == "" and not field.metadata["blank"]:
            text = None
        if field.metadata["secret"] and (path := environ.get(f"{name}_FILE")):
            if text is not None:
                raise SettingsError(f"{name} and {name}_FILE: expected one of them, got both")
            text = _secret_of_file(f"{name}_FILE", path)
        if text is None:
            text = _default(field.metadata, in_production=values.get("environment") == "production")
        try:
            values[field.name] = field.metadata["read"](text)
        except (ValueError, KeyError) as error:
            shown = "(hidden)" if field.metadata["secret"] else repr(text)
            reason = f": {error}" if isinstance(error, WrongEntry) else ""
            raise SettingsError(f"{name}: expected {field.metadata['expected']}, got {shown}{reason}") from error
    settings = Settings(**values)
    _check_together(settings)
    if settings.production:
        _check_chosen(environ)
    return settings


def _default(marks: Mapping[str, Any], *, in_production: bool) -> str:
    other = marks["production"] if in_production else None
    return other or marks["default"] or ""


def _secret_of_file(name: str, path: str) -> str:
    """Return a file's text without its trailing newline. Raises SettingsError that names the variable, never the text.

    An empty file is refused: a secret that was not written must not become a development default.
    """
    try:
        with pathlib.Path(path).open("rb") as file:
            content = file.read(LONGEST_SECRET_FILE + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"{name}: expected a readable file, got {path!r}: {reason}") from error
    if len(content) > LONGEST_SECRET_FILE:
        raise SettingsError(f"{name}: expected a file of at most {LONGEST_SECRET_FILE} bytes, got {path!r}")
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise SettingsError(f"{name}: expected a file that holds the secret, got {path!r}, which is empty")
    return text


def _check_together(s: Settings) -> None:
    """Raise SettingsError for variables that do not fit together."""
    if ":" in s.gateway_secret_key:  # the key is the user name of Basic authentication, which ends at a colon
        raise SettingsError("GATEWAY_SECRET_KEY: expected a key without a colon")
    if s.gateway_enabled and not (s.gateway_base_url and s.gateway_secret_key):
        raise SettingsError("GATEWAY_BASE_URL and GATEWAY_SECRET_KEY: expected both, because GATEWAY_ENABLED is true")
    if s.otp_sender == "http" and not s.otp_http_url:
        raise SettingsError("OTP_HTTP_URL: expected http(s)://…, because OTP_SENDER is http")
    if s.otp_sender == "twilio_verify" and not (s.twilio_verify_service and s.twilio_api_key and s.twilio_api_secret):
        raise SettingsError(
            "TWILIO_VERIFY_SERVICE, TWILIO_API_KEY and TWILIO_API_SECRET: expected all, because OTP_SENDER is "
            "twilio_verify"
        )
    if s.push_sender == "fcm" and not (s.fcm_project_id and s.fcm_credentials_file):
        raise SettingsError("FCM_PROJECT_ID and FCM_CREDENTIALS_FILE: expected both, because PUSH_SENDER is fcm")
    _check_identity("A", s.identity_a_audiences, s.identity_a_issuers, s.identity_a_jwks_url)
    _check_identity("B", s.identity_b_audiences, s.identity_b_issuers, s.identity_b_jwks_url)
    _check_test_numbers(s)
    _check_traces(s)
    if s.public_port == s.internal_port and meet(s.public_host, s.internal_host):  # one process opens both
        raise SettingsError("PUBLIC_PORT and INTERNAL_PORT: expected different ports")
    if s.production:
        _check_production(s)
        _check_encrypted(s)
    _check_exposed(s)


def _check_traces(s: Settings) -> None:
    """Raise SettingsError for wrong variables of OpenTelemetry. While traces are off, other programs may need them."""
    if not s.traces_enabled:
        return
    if s.otel_traces_sampler not in SAMPLERS:
        raise SettingsError(f"OTEL_TRACES_SAMPLER: expected {', '.join(SAMPLERS)}, got {s.otel_traces_sampler!r}")
    try:
        parsers.ratio(s.otel_traces_sampler_arg)
    except ValueError as error:
        raise SettingsError(
            f"OTEL_TRACES_SAMPLER_ARG: expected a ratio, 0 to 1, got {s.otel_traces_sampler_arg!r}"
        ) from error
    try:
        parsers.url("http", "https")(s.otel_exporter_otlp_endpoint)
    except ValueError as error:
        raise SettingsError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT: expected http(s)://…, got {s.otel_exporter_otlp_endpoint!r}"
        ) from error


def _check_test_numbers(s: Settings) -> None:
    try:
        fixed_codes.check(s.otp_test_numbers, countries=s.otp_countries, days_required=s.production)
    except WrongEntry as error:
        raise SettingsError(f"OTP_TEST_NUMBERS: expected number:code:YYYY-MM-DD entries, but {error}") from error


def _check_identity(letter: str, *values: Any) -> None:
    if any(values) and not all(values):
        names = ", ".join(f"IDENTITY_{letter}_{name}" for name in ("AUDIENCES", "ISSUERS", "JWKS_URL"))
        raise SettingsError(f"{names}: expected all three or none")


def _check_production(s: Settings) -> None:
    """Raise SettingsError for values that are only allowed in development."""
    for name in _development_secrets(s):
        raise SettingsError(f"{name}: expected a secret of your own in production, got the development one")
    if any(len(token) < CALLBACK_TOKEN_LENGTH for token in s.gateway_callback_token):
        raise SettingsError(
            f"GATEWAY_CALLBACK_TOKEN: expected tokens of at least {CALLBACK_TOKEN_LENGTH} characters in production"
        )
    if s.refunds_enabled and not s.gateway_enabled:
        raise SettingsError("REFUNDS_ENABLED: expected false in production, because GATEWAY_ENABLED is false")
    if s.development_identities:
        raise SettingsError("DEVELOPMENT_IDENTITIES: expected false in production")
    if s.password_rounds < 10:
        raise SettingsError("PASSWORD_ROUNDS: expected 10 or more in production")
    if s.sesi_time_scale != 1 or s.sesi_time_anchor:
        raise SettingsError("SESI_TIME_SCALE and SESI_TIME_ANCHOR: expected to be unset in production")


def _check_chosen(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for variables whose default would let production start without codes, pushes or payments."""
    chosen = [field.name.upper() for field in variables() if field.metadata["chosen"]]
    if missing := [name for name in chosen if not environ.get(name, "").strip()]:
        raise SettingsError(
            f"{', '.join(missing)}: expected to be set in production, which has no default for them: choose a "
            "provider, or say that there is none (GATEWAY_ENABLED=false, OTP_SENDER=log, PUSH_SENDER=log)"
        )


def _development_secrets(s: Settings) -> list[str]:
    """Return the variables that hold a secret published in core/settings/settings.py."""
    found = []
    if any(secret.startswith(b"development") for _, secret in s.jwt_secrets):
        found.append("JWT_SECRETS")
    if any(secret.startswith(b"development") for secret in s.erasure_hash_keys):
        found.append("ERASURE_HASH_KEYS")
    if any(seed == DEVELOPMENT_RECEIPT_SEED for _, seed in s.receipt_signing_keys):
        found.append("RECEIPT_SIGNING_KEYS")
    if DEVELOPMENT_CALLBACK_TOKEN in s.gateway_callback_token:
        found.append("GATEWAY_CALLBACK_TOKEN")
    return found


def _check_exposed(s: Settings) -> None:
    """Raise SettingsError if other machines could reach a listener that has development secrets or routes.

    The routes are on the public and the internal listener. A forgotten ENVIRONMENT would expose them.
    """
    exposed = [
        name for name in ("public", "internal", "realtime", "jobs") if not is_loopback(getattr(s, f"{name}_host"))
    ]
    for secret in _development_secrets(s) if exposed else ():
        raise SettingsError(
            f"{exposed[0].upper()}_HOST: expected a loopback address, because {secret} is the development one: "
            f"set a secret of your own"
        )
    if s.development_routes and not s.allow_exposed_development and {"public", "internal"} & {*exposed}:
        raise SettingsError(
            f"{exposed[0].upper()}_HOST: expected a loopback address, because it would offer the development routes: "
            "set ENVIRONMENT=production, or ALLOW_EXPOSED_DEVELOPMENT=true"
        )


def _check_encrypted(s: Settings) -> None:
    """Raise SettingsError for a connection that others could read or impersonate; loopback and Unix sockets pass."""
    if s.allow_plaintext_backends:
        return
    unless = "in production, unless it is on loopback; a network that is trusted needs ALLOW_PLAINTEXT_BACKENDS=true"
    for name in (*HTTP_BACKENDS, *(["otel_exporter_otlp_endpoint"] if s.traces_enabled else [])):
        if http_in_plaintext(getattr(s, name)):
            raise SettingsError(f"{name.upper()}: expected https:// {unless}")
    if s.redis_url and redis_without_password(s.redis_url):
        raise SettingsError(f"REDIS_URL: expected rediss://, or redis:// with a password, {unless}")
    for name in ("database_url", "database_read_url"):
        if (url := getattr(s, name)) and database_in_plaintext(url):
            raise SettingsError(f"{name.upper()}: expected sslmode=verify-full, or at least sslmode=require, {unless}")


def meet(one: str, other: str) -> bool:
    """Return whether listeners on these two hosts of one machine would collide on the same port."""
    return one == other or bool({one, other} & EVERYWHERE)
