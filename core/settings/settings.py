"""Settings: environment variables, fixed while a process runs (docs/settings.md). core/settings/environment.py reads
them."""

import datetime as dt
import pathlib
from collections.abc import Callable
from typing import Any

import attrs

from core.settings import fixed_codes
from core.settings import parsers as parse
from core.settings.fixed_codes import FixedCode

DEVELOPMENT_JWT_SECRETS = "dev:development-only-secret-of-at-least-32-bytes"
DEVELOPMENT_ERASURE_KEY = "development-only-erasure-key-of-32-bytes"
DEVELOPMENT_RECEIPT_SEED = b"development-only-receipt-seed-32"
DEVELOPMENT_CALLBACK_TOKEN = "development-callback-token"  # noqa: S105 - refused in production
CALLBACK_TOKEN_LENGTH = 24  # minimum in production: attempts to guess the token are not limited
LOG_LEVELS = ("debug", "info", "warning", "error")
ENVIRONMENTS = ("development", "test", "production")


class SettingsError(Exception):
    """A variable is wrong or missing; the message is one line that names it and says what is expected."""


PORT = parse.bounded(1, 65535)


def _setting(
    default: str | None, read: Callable[[str], Any], expected: str, *, production: str | None = None, **marks: bool
) -> Any:
    """Declare a variable: its default as text (None: unset), its parser, and what the error message says is expected.

    `production` is the default there, if it is another one. The marks: a blank value counts as unset unless `blank` is
    true. A `secret` may be read from a file and is masked when shown. In production a variable that is `chosen` has no
    default.
    """
    known = {"secret": False, "blank": False, "chosen": False, **marks}
    return attrs.field(
        metadata={"default": default, "production": production, "read": read, "expected": expected, **known}
    )


@attrs.frozen(kw_only=True)
class Settings:
    """All settings; a field's name is its variable's name in lower case."""

    environment: str = _setting("development", parse.one_of(*ENVIRONMENTS), "development, test or production")
    allow_exposed_development: bool = _setting("false", parse.flag, "true or false")
    allow_plaintext_backends: bool = _setting("false", parse.flag, "true or false")
    database_url: str = _setting(
        None,
        parse.database_url,
        "postgresql://user:password@host:port/name, or several comma separated host:port, of which the service uses "
        "the one that accepts writes",
        secret=True,
    )
    database_pool_size: int | None = _setting(
        "",
        parse.bounded_or_blank(4, 1000),
        "connections of a process, 4 to 1000; blank: 20 in the api process, 13 in realtime, 6 in jobs",
    )
    database_pooler: str = _setting(
        "none",
        parse.one_of("none", "transaction"),
        "none, or transaction if DATABASE_URL leads to a PgBouncer in transaction mode",
    )
    database_read_url: str = _setting(
        "",
        parse.read_url,
        "postgresql://user:password@host:port/name of one replica, for activity, reports and audits",
        secret=True,
    )
    redis_url: str = _setting(
        None,
        parse.redis_url,
        "redis://host:port/number, redis+sentinel://host:port,host:port/service or redis+cluster://host:port,host:port "
        "(rediss for TLS)",
        secret=True,
    )
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
        "127.0.0.1", parse.networks, "addresses or CIDR networks, comma separated", blank=True
    )
    jwt_secrets: tuple[tuple[str, bytes], ...] = _setting(
        DEVELOPMENT_JWT_SECRETS,
        parse.secrets,
        "kid:secret[,kid:secret] with secrets of at least 32 bytes",
        secret=True,
    )
    erasure_hash_keys: tuple[bytes, ...] = _setting(
        DEVELOPMENT_ERASURE_KEY,
        parse.plain_secrets,
        "secrets of at least 32 bytes, comma separated. The first makes the hashes of erased phones and identities, "
        "all are compared",
        secret=True,
    )
    receipt_signing_keys: tuple[tuple[str, bytes], ...] = _setting(
        f"dev:{DEVELOPMENT_RECEIPT_SEED.hex()}",
        parse.signing_keys,
        "kid:seed[,kid:seed] with seeds of 32 bytes in hex. The first signs receipts, the public keys of all are "
        "published",
        secret=True,
    )
    access_token_seconds: int = _setting("900", parse.bounded(30, 86400), "seconds, 30 to 86400")
    refresh_token_days: int = _setting("30", parse.bounded(1, 365), "days, 1 to 365")
    operator_refresh_token_hours: int = _setting("12", parse.bounded(1, 720), "hours, 1 to 720")
    mitra_heartbeat_cadence_seconds: int = _setting("30", parse.cadence, f"seconds, at most {parse.LONGEST_CADENCE_S}")
    gateway_enabled: bool = _setting("false", parse.flag, "true or false", chosen=True)
    gateway_base_url: str = _setting("", parse.url("http", "https"), "http(s)://host")
    gateway_secret_key: str = _setting("", str, "the gateway's secret key", secret=True)
    gateway_callback_token: tuple[str, ...] = _setting(
        DEVELOPMENT_CALLBACK_TOKEN,
        parse.words,
        f"callback tokens, comma separated; each of at least {CALLBACK_TOKEN_LENGTH} characters in production",
        secret=True,
        blank=True,
    )
    gateway_source_networks: tuple[str, ...] = _setting(
        "",
        parse.networks,
        "addresses or CIDR networks that the gateway calls from, comma separated; they have no share of the limits of "
        "calls without a valid token",
        blank=True,
    )
    refunds_enabled: bool = _setting("false", parse.flag, "true or false")
    gateway_app_tag: str = _setting("sesi", str, "the tag of this application generation")
    gateway_payment_methods: tuple[str, ...] = _setting(
        "QRIS,BCA,BNI,BRI,MANDIRI,PERMATA,DANA,OVO,SHOPEEPAY,LINKAJA",
        parse.words,
        "the payment methods that your gateway account offers, comma separated; blank: all, in the gateway's order. "
        "The row payment_method_qris_first moves QRIS to the beginning or the end",
        blank=True,
    )
    webhook_fallback_enabled: bool = _setting("false", parse.flag, "true or false")
    webhook_fallback_dir: pathlib.Path = _setting("./logs", pathlib.Path, "a directory")
    webhook_fallback_name: str = _setting("gateway-webhook-fallback", str, "the beginning of a file name")
    development_identities: bool = _setting("false", parse.flag, "true or false; true is refused in production")
    identity_a_audiences: tuple[str, ...] = _setting("", parse.words, "client ids, comma separated")
    identity_a_issuers: tuple[str, ...] = _setting("", parse.words, "issuers, comma separated")
    identity_a_jwks_url: str = _setting("", parse.url("http", "https"), "http(s)://…")
    identity_b_audiences: tuple[str, ...] = _setting("", parse.words, "client ids, comma separated")
    identity_b_issuers: tuple[str, ...] = _setting("", parse.words, "issuers, comma separated")
    identity_b_jwks_url: str = _setting("", parse.url("http", "https"), "http(s)://…")
    otp_sender: str = _setting(
        "log", parse.one_of("log", "http", "twilio_verify"), "log, http or twilio_verify", chosen=True
    )
    otp_http_url: str = _setting("", parse.url("http", "https"), "http(s)://…")
    otp_http_token: str = _setting("", str, "the OTP sender's token", secret=True)
    otp_countries: tuple[str, ...] = _setting(
        "ID", parse.countries, "countries that codes are sent to, as ISO 3166 codes, comma separated"
    )
    otp_test_numbers: tuple[FixedCode, ...] = _setting(
        "",
        fixed_codes.parse,
        "number:code:YYYY-MM-DD entries, comma separated: numbers in international form whose code is fixed until that "
        "day (UTC), which may be left out in development",
        secret=True,
    )
    otp_channel: str = _setting("sms", parse.at_most(16), "a channel name of at most 16 characters")
    twilio_verify_base_url: str = _setting("https://verify.twilio.com", parse.url("http", "https"), "http(s)://…")
    twilio_verify_service: str = _setting("", str, "a Verify service's id, VA…")
    twilio_api_key: str = _setting("", str, "an API key's id")
    twilio_api_secret: str = _setting("", str, "the API key's secret", secret=True)
    push_sender: str = _setting("log", parse.one_of("log", "fcm"), "log or fcm", chosen=True)
    fcm_project_id: str = _setting("", str, "a project id")
    fcm_credentials_file: str = _setting("", str, "a service account file")
    fcm_base_url: str = _setting("https://fcm.googleapis.com", parse.url("http", "https"), "http(s)://…")
    push_ack_seconds: int = _setting("5", parse.bounded(1, 300), "seconds, 1 to 300")
    internal_cors_origins: tuple[str, ...] = _setting("", parse.words, "origins, comma separated")
    public_cors_origins: tuple[str, ...] = _setting(
        "", parse.words, "origins of web apps, comma separated; sockets of the service's own host need none"
    )
    rate_limit_per_minute: int = _setting("120", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_burst: int = _setting("60", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_address_per_minute: int = _setting("1200", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    rate_limit_address_burst: int = _setting("600", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    operator_rate_limit_per_minute: int = _setting("600", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    operator_sign_in_per_minute: int = _setting("20", parse.bounded(1, 1_000_000), "requests, 1 to 1000000")
    http_connections: int = _setting("10000", parse.bounded(1, 1_000_000), "connections, 1 to 1000000")
    http_connections_per_address: int = _setting("6000", parse.bounded(1, 1_000_000), "connections, 1 to 1000000")
    keep_alive_seconds: int = _setting(
        "75", parse.bounded(1, 3600), "seconds, 1 to 3600; longer than a proxy keeps idle connections to the service"
    )
    docs_enabled: bool = _setting("true", parse.flag, "true or false", production="false")
    ws_frames_per_second: int = _setting("30", parse.bounded(1, 1_000_000), "frames, 1 to 1000000")
    ws_frames_burst: int = _setting("200", parse.bounded(1, 1_000_000), "frames, 1 to 1000000")
    ws_messages_per_second: int = _setting("5", parse.bounded(1, 1_000_000), "messages, 1 to 1000000")
    ws_messages_burst: int = _setting("30", parse.bounded(1, 1_000_000), "messages, 1 to 1000000")
    ws_unauthenticated_per_address: int = _setting("1000", parse.bounded(1, 1_000_000), "sockets, 1 to 1000000")
    initial_passwords_expire: bool | None = _setting(
        "", parse.flag_or_blank, "true, false, or blank: true in production"
    )
    password_rounds: int = _setting("11", parse.bounded(4, 16), "a power of two, 4 to 16; 10 or more in production")
    drain_seconds: int = _setting("5", parse.bounded(0, 300), "seconds, 0 to 300")
    shutdown_grace_seconds: int = _setting("10", parse.bounded(1, 300), "seconds, 1 to 300")
    log_level: str = _setting("info", parse.one_of(*LOG_LEVELS), "debug, info, warning or error")
    traces_enabled: bool = _setting("false", parse.flag, "true or false")
    otel_exporter_otlp_endpoint: str = _setting("http://localhost:4318", str, "a collector's base URL, http(s)://…")
    otel_exporter_otlp_headers: str = _setting("", str, "name=value pairs, comma separated", secret=True)
    otel_traces_sampler: str = _setting("parentbased_always_on", str, "a sampler (docs/traces.md)")
    otel_traces_sampler_arg: str = _setting("1", str, "a ratio, 0 to 1")
    sesi_time_scale: float = _setting("1", parse.scale, "a number from 0.01 to 10000")
    sesi_time_anchor: dt.datetime | None = _setting("", parse.moment, "an ISO 8601 time with a zone")

    @property
    def production(self) -> bool:
        """Whether this is production: no development routes, no development secrets, no scaled time."""
        return self.environment == "production"

    @property
    def through_pooler(self) -> bool:
        """Whether DATABASE_URL leads to a connection pooler, which lends a server connection for one transaction."""
        return self.database_pooler == "transaction"

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


def names() -> frozenset[str]:
    """Return the variables' names."""
    return frozenset(field.name.upper() for field in variables())


def file_names() -> frozenset[str]:
    """Return the names of the variables that name a secret's file."""
    return frozenset(f"{field.name.upper()}_FILE" for field in variables() if field.metadata["secret"])


def shown(s: Settings) -> list[tuple[str, str, str]]:
    """Return (variable, default, effective value) of each setting, for operators, secrets masked."""
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
