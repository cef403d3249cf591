"""Settings: environment variables, read and checked once, fixed while a process runs (docs/settings.md)."""

import datetime as dt
import ipaddress
import pathlib
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import phonenumbers

from core.base.addresses import database_urls
from core.base.plaintext import database_in_plaintext, http_in_plaintext, is_loopback, redis_without_password

DEVELOPMENT_JWT_SECRETS = "dev:development-only-secret-of-at-least-32-bytes"
DEVELOPMENT_CALLBACK_TOKEN = "development-callback-token"  # noqa: S105 - refused in production
CALLBACK_TOKEN_LENGTH = 24  # minimum in production: attempts to guess the token are not limited
ENVIRONMENTS = ("development", "test", "production")


LONGEST_CADENCE_S = 3600
LONGEST_SECRET_FILE = 65_536  # in bytes; a larger file is not a secret and may be endless, such as /dev/zero
EVERYWHERE = frozenset({"0.0.0.0", "::"})


class SettingsError(Exception):
    """A variable is wrong or missing; the message is one line that names it and says what is expected."""


def _bounded(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return read


def _at_most(size: int) -> Callable[[str], str]:
    """Read a text that is stored in a column of this size."""

    def read(text: str) -> str:
        if len(text) > size:
            raise ValueError(text)
        return text

    return read


def _flag(text: str) -> bool:
    value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
    return value[text.strip().lower()]


def _flag_or_blank(text: str) -> bool | None:
    return _flag(text) if text.strip() else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _countries(text: str) -> tuple[str, ...]:
    """Read ISO 3166 codes of countries that the library phonenumbers supports."""
    words = tuple(word.upper() for word in _words(text))
    if not words or not set(words) <= phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(text)
    return words


def _networks(text: str) -> tuple[str, ...]:
    """Read addresses and CIDR networks, clearing host bits: some consumers reject 10.0.0.1/8."""
    found = [(word, ipaddress.ip_network(word, strict=False)) for word in _words(text)]
    return tuple(str(network) if "/" in word else word for word, network in found)


def _cadence(text: str) -> int:
    """Read the heartbeat cadence in seconds; blank, zero and anything that is not a number count as 30.

    It is at most 3,600, because `mitra_stale_after_seconds` must reach it and ends there.
    """
    seconds = int(text[:20]) if text.strip().isascii() and text.strip().isdigit() and int(text[:20]) > 0 else 30
    if seconds > LONGEST_CADENCE_S:
        raise ValueError(text)
    return seconds


def _scale(text: str) -> float:
    number = float(text)
    if not 0.01 <= number <= 10_000:
        raise ValueError(text)
    return number


def _secrets(text: str) -> tuple[tuple[str, bytes], ...]:
    pairs = []
    for part in _words(text):
        kid, colon, secret = part.partition(":")
        if not colon or not kid or len(secret.encode()) < 32:
            raise ValueError("short")
        pairs.append((kid, secret.encode()))
    if not pairs or len({kid for kid, _ in pairs}) < len(pairs):
        raise ValueError("none")
    return tuple(pairs)


def _moment(text: str) -> dt.datetime | None:
    if not text:
        return None
    at = dt.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(text)
    return at


def _url(*schemes: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text and not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError(text)
        _ = urllib.parse.urlsplit(text).port  # raises ValueError for an invalid port
        return text

    return read


def _database_url(text: str) -> str:
    """Read the URL of a database, which may name several hosts."""
    for url in database_urls(text):
        _url("postgresql", "postgres")(url)
    return text


PORT = _bounded(1, 65535)
HTTP_BACKENDS = (
    "identity_a_jwks_url", "identity_b_jwks_url", "otp_http_url", "twilio_verify_base_url", "gateway_base_url", "fcm_base_url",
)  # fmt: skip


def _setting(
    default: str | None, read: Callable[[str], Any], expected: str, *, secret: bool = False, blank: bool = False
) -> Any:
    """Declare a variable: its default as text (None: unset), its parser, and what the error message says is expected.

    A blank value counts as unset unless `blank` is true. A `secret` may be read from a file and is masked when shown.
    """
    return attrs.field(
        metadata={"default": default, "read": read, "expected": expected, "secret": secret, "blank": blank}
    )


@attrs.frozen(kw_only=True)
class Settings:
    """All settings; a field's name is its variable's name in lower case."""

    environment: str = _setting("development", _one_of(*ENVIRONMENTS), "development, test or production")
    allow_exposed_development: bool = _setting("false", _flag, "true or false")
    allow_plaintext_backends: bool = _setting("false", _flag, "true or false")
    database_url: str = _setting(
        None,
        _database_url,
        "postgresql://user:password@host:port/name, or several comma separated host:port, of which the service uses the "
        "one that accepts writes",
        secret=True,
    )
    redis_url: str = _setting(None, _url("redis", "rediss", "unix"), "redis://host:port/number", secret=True)
    sesi_data_dir: pathlib.Path = _setting(".sesi", pathlib.Path, "a directory")
    public_host: str = _setting("127.0.0.1", str, "an address to listen on")
    public_port: int = _setting("8000", PORT, "a port, 1 to 65535")
    internal_host: str = _setting("127.0.0.1", str, "an address to listen on")
    internal_port: int = _setting("8001", PORT, "a port, 1 to 65535")
    realtime_host: str = _setting("127.0.0.1", str, "an address to listen on")
    realtime_port: int = _setting("8010", PORT, "a port, 1 to 65535")
    jobs_host: str = _setting("127.0.0.1", str, "an address to listen on")
    jobs_port: int = _setting("8020", PORT, "a port, 1 to 65535")
    trusted_proxies: tuple[str, ...] = _setting(
        "127.0.0.1", _networks, "addresses or CIDR networks, comma separated", blank=True
    )
    jwt_secrets: tuple[tuple[str, bytes], ...] = _setting(
        DEVELOPMENT_JWT_SECRETS,
        _secrets,
        "kid:secret[,kid:secret] with secrets of at least 32 bytes",
        secret=True,
    )
    access_token_seconds: int = _setting("900", _bounded(30, 86400), "seconds, 30 to 86400")
    refresh_token_days: int = _setting("30", _bounded(1, 365), "days, 1 to 365")
    operator_refresh_token_hours: int = _setting("12", _bounded(1, 720), "hours, 1 to 720")
    mitra_heartbeat_cadence_seconds: int = _setting("30", _cadence, f"seconds, at most {LONGEST_CADENCE_S}")
    gateway_enabled: bool = _setting("false", _flag, "true or false")
    gateway_base_url: str = _setting("", _url("http", "https"), "http(s)://host")
    gateway_secret_key: str = _setting("", str, "the gateway's secret key", secret=True)
    gateway_callback_token: tuple[str, ...] = _setting(
        DEVELOPMENT_CALLBACK_TOKEN,
        _words,
        f"callback tokens, comma separated; each of at least {CALLBACK_TOKEN_LENGTH} characters in production",
        secret=True,
        blank=True,
    )
    gateway_app_tag: str = _setting("sesi", str, "the tag of this application generation")
    gateway_payment_methods: tuple[str, ...] = _setting(
        "QRIS,BCA,BNI,BRI,MANDIRI,PERMATA,DANA,OVO,SHOPEEPAY,LINKAJA",
        _words,
        "the payment methods that your gateway account offers, comma separated; blank: all, in the gateway's order. "
        "The row payment_method_qris_first moves QRIS to the beginning or the end",
        blank=True,
    )
    webhook_fallback_enabled: bool = _setting("false", _flag, "true or false")
    webhook_fallback_dir: pathlib.Path = _setting("./logs", pathlib.Path, "a directory")
    webhook_fallback_name: str = _setting("gateway-webhook-fallback", str, "the beginning of a file name")
    identity_a_audiences: tuple[str, ...] = _setting("", _words, "client ids, comma separated")
    identity_a_issuers: tuple[str, ...] = _setting("", _words, "issuers, comma separated")
    identity_a_jwks_url: str = _setting("", _url("http", "https"), "http(s)://…")
    identity_b_audiences: tuple[str, ...] = _setting("", _words, "client ids, comma separated")
    identity_b_issuers: tuple[str, ...] = _setting("", _words, "issuers, comma separated")
    identity_b_jwks_url: str = _setting("", _url("http", "https"), "http(s)://…")
    otp_sender: str = _setting("log", _one_of("log", "http", "twilio_verify"), "log, http or twilio_verify")
    otp_http_url: str = _setting("", _url("http", "https"), "http(s)://…")
    otp_http_token: str = _setting("", str, "the OTP sender's token", secret=True)
    otp_countries: tuple[str, ...] = _setting(
        "ID", _countries, "countries that codes are sent to, as ISO 3166 codes, comma separated"
    )
    otp_channel: str = _setting("sms", _at_most(16), "a channel name of at most 16 characters")
    twilio_verify_base_url: str = _setting("https://verify.twilio.com", _url("http", "https"), "http(s)://…")
    twilio_verify_service: str = _setting("", str, "a Verify service's id, VA…")
    twilio_api_key: str = _setting("", str, "an API key's id")
    twilio_api_secret: str = _setting("", str, "the API key's secret", secret=True)
    push_sender: str = _setting("log", _one_of("log", "fcm"), "log or fcm")
    fcm_project_id: str = _setting("", str, "a project id")
    fcm_credentials_file: str = _setting("", str, "a service account file")
    fcm_base_url: str = _setting("https://fcm.googleapis.com", _url("http", "https"), "http(s)://…")
    push_ack_seconds: int = _setting("5", _bounded(1, 300), "seconds, 1 to 300")
    internal_cors_origins: tuple[str, ...] = _setting("", _words, "origins, comma separated")
    public_cors_origins: tuple[str, ...] = _setting("", _words, "origins, comma separated")
    rate_limit_per_minute: int = _setting("120", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_burst: int = _setting("60", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_address_per_minute: int = _setting("1200", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_address_burst: int = _setting("600", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    operator_rate_limit_per_minute: int = _setting("600", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    operator_sign_in_per_minute: int = _setting("20", _bounded(1, 1_000_000), "requests, 1 to 1000000")
    http_connections: int = _setting("10000", _bounded(1, 1_000_000), "connections, 1 to 1000000")
    http_connections_per_address: int = _setting("6000", _bounded(1, 1_000_000), "connections, 1 to 1000000")
    docs_enabled: bool = _setting("true", _flag, "true or false")
    ws_frames_per_second: int = _setting("30", _bounded(1, 1_000_000), "frames, 1 to 1000000")
    ws_frames_burst: int = _setting("200", _bounded(1, 1_000_000), "frames, 1 to 1000000")
    ws_messages_per_second: int = _setting("5", _bounded(1, 1_000_000), "messages, 1 to 1000000")
    ws_messages_burst: int = _setting("30", _bounded(1, 1_000_000), "messages, 1 to 1000000")
    ws_unauthenticated_per_address: int = _setting("1000", _bounded(1, 1_000_000), "sockets, 1 to 1000000")
    initial_passwords_expire: bool | None = _setting("", _flag_or_blank, "true, false, or blank: true in production")
    password_rounds: int = _setting("11", _bounded(4, 16), "a power of two, 4 to 16; 10 or more in production")
    drain_seconds: int = _setting("5", _bounded(0, 300), "seconds, 0 to 300")
    shutdown_grace_seconds: int = _setting("10", _bounded(1, 300), "seconds, 1 to 300")
    sesi_time_scale: float = _setting("1", _scale, "a number from 0.01 to 10000")
    sesi_time_anchor: dt.datetime | None = _setting("", _moment, "an ISO 8601 time with a zone")

    @property
    def production(self) -> bool:
        """Whether this is production: no development routes, no development secrets, no scaled time."""
        return self.environment == "production"

    @property
    def initial_passwords_due(self) -> bool:
        """Whether an operator must replace, at the first sign-in, a password that another person chose."""
        return self.production if self.initial_passwords_expire is None else self.initial_passwords_expire

    @property
    def development_routes(self) -> bool:
        """Whether /internal/_test exists."""
        return not self.production

    @property
    def development_payment_page(self) -> bool:
        """Whether /dev/pay exists, where a click pays; never if the gateway is enabled, whatever ENVIRONMENT says."""
        return self.development_routes and not self.gateway_enabled


def variables() -> tuple["attrs.Attribute[Any]", ...]:
    """Return the fields of Settings, for listing them."""
    return attrs.fields(Settings)


def meet(one: str, other: str) -> bool:
    """Return whether listeners on these two hosts of one machine would collide on the same port."""
    return one == other or bool({one, other} & EVERYWHERE)


def names() -> frozenset[str]:
    """Return the variables' names."""
    return frozenset(field.name.upper() for field in variables())


def file_names() -> frozenset[str]:
    """Return the names of the variables that name a secret's file."""
    return frozenset(f"{field.name.upper()}_FILE" for field in variables() if field.metadata["secret"])


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
            text = field.metadata["default"] or ""
        try:
            values[field.name] = field.metadata["read"](text)
        except (ValueError, KeyError) as error:
            shown = "(hidden)" if field.metadata["secret"] else repr(text)
            raise SettingsError(f"{name}: expected {field.metadata['expected']}, got {shown}") from error
    settings = Settings(**values)
    _check_together(settings)
    return settings


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
            "TWILIO_VERIFY_SERVICE, TWILIO_API_KEY and TWILIO_API_SECRET: expected all, because OTP_SENDER is twilio_verify"
        )
    if s.push_sender == "fcm" and not (s.fcm_project_id and s.fcm_credentials_file):
        raise SettingsError("FCM_PROJECT_ID and FCM_CREDENTIALS_FILE: expected both, because PUSH_SENDER is fcm")
    _check_identity("A", s.identity_a_audiences, s.identity_a_issuers, s.identity_a_jwks_url)
    _check_identity("B", s.identity_b_audiences, s.identity_b_issuers, s.identity_b_jwks_url)
    if s.public_port == s.internal_port and meet(s.public_host, s.internal_host):  # one process opens both
        raise SettingsError("PUBLIC_PORT and INTERNAL_PORT: expected different ports")
    if s.production:
        _check_production(s)
        _check_encrypted(s)
    _check_exposed(s)


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
    if s.password_rounds < 10:
        raise SettingsError("PASSWORD_ROUNDS: expected 10 or more in production")
    if s.sesi_time_scale != 1 or s.sesi_time_anchor:
        raise SettingsError("SESI_TIME_SCALE and SESI_TIME_ANCHOR: expected to be unset in production")


def _development_secrets(s: Settings) -> list[str]:
    """Return the variables that hold a secret published in this file."""
    found = []
    if any(secret.startswith(b"development") for _, secret in s.jwt_secrets):
        found.append("JWT_SECRETS")
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
    for name in HTTP_BACKENDS:
        if http_in_plaintext(getattr(s, name)):
            raise SettingsError(f"{name.upper()}: expected https:// {unless}")
    if s.redis_url and redis_without_password(s.redis_url):
        raise SettingsError(f"REDIS_URL: expected rediss://, or redis:// with a password, {unless}")
    if s.database_url and database_in_plaintext(s.database_url):
        raise SettingsError(f"DATABASE_URL: expected sslmode=verify-full, or at least sslmode=require, {unless}")


def shown(s: Settings) -> list[tuple[str, str, str]]:
    """Return (variable, default, effective value) of each setting, secrets masked."""
    rows = []
    for field in variables():
        value = getattr(s, field.name)
        default = field.metadata["default"]
        if field.metadata["secret"]:
            value, default = ("****" if value else ""), ("****" if default else "")
        elif isinstance(value, tuple):
            value = ",".join(value)
        elif isinstance(value, bool):
            value = str(value).lower()
        elif value is None:
            value = ""
        rows.append((field.name.upper(), default or "", str(value)))
    return rows
