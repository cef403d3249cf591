"""Settings come from the environment; an invalid one stops the start with one line that names it (docs/settings.md)."""

import datetime as dt
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.settings import settings
from core.settings.environment import read
from core.settings.settings import SettingsError, shown, variables
from tests.each import for_each
from tools.commands import trial

SECRET = "k1:" + "s" * 32
PRODUCTION = {
    "ENVIRONMENT": "production",
    "JWT_SECRETS": SECRET,
    "GATEWAY_CALLBACK_TOKEN": "a callback token of our own",
    "ERASURE_HASH_KEYS": "e" * 32,
    "RECEIPT_SIGNING_KEYS": "k1:" + "ab" * 32,
    "GATEWAY_ENABLED": "false",
    "OTP_SENDER": "log",
    "PUSH_SENDER": "log",
}
CHOSEN = ("GATEWAY_ENABLED", "OTP_SENDER", "PUSH_SENDER")
NAMES = [field.name.upper() for field in variables()]
DEFAULTS = {
    "ENVIRONMENT": "development", "DATABASE_URL": "", "DATABASE_POOL_SIZE": None, "DATABASE_POOLER": "none",
    "DATABASE_READ_URL": "", "REDIS_URL": "", "SESI_DATA_DIR": pathlib.Path(".sesi"),
    "PUBLIC_HOST": "127.0.0.1", "PUBLIC_PORT": 8000, "INTERNAL_HOST": "127.0.0.1", "INTERNAL_PORT": 8001,
    "REALTIME_HOST": "127.0.0.1", "REALTIME_PORT": 8010, "JOBS_HOST": "127.0.0.1", "JOBS_PORT": 8020,
    "TRUSTED_PROXIES": ("127.0.0.1",), "ACCESS_TOKEN_SECONDS": 900, "REFRESH_TOKEN_DAYS": 30,
    "OPERATOR_REFRESH_TOKEN_HOURS": 12, "MITRA_HEARTBEAT_CADENCE_SECONDS": 30, "GATEWAY_ENABLED": False,
    "GATEWAY_APP_TAG": "sesi", "WEBHOOK_FALLBACK_ENABLED": False, "WEBHOOK_FALLBACK_DIR": pathlib.Path("./logs"),
    "WEBHOOK_FALLBACK_NAME": "gateway-webhook-fallback", "OTP_SENDER": "log", "OTP_CHANNEL": "sms",
    "INITIAL_PASSWORDS_EXPIRE": None, "PUSH_SENDER": "log", "PUSH_ACK_SECONDS": 5, "RATE_LIMIT_PER_MINUTE": 120, "RATE_LIMIT_BURST": 60,
    "RATE_LIMIT_ADDRESS_PER_MINUTE": 1200, "RATE_LIMIT_ADDRESS_BURST": 600, "OPERATOR_RATE_LIMIT_PER_MINUTE": 600,
    "OPERATOR_SIGN_IN_PER_MINUTE": 20, "HTTP_CONNECTIONS": 10000, "HTTP_CONNECTIONS_PER_ADDRESS": 6000,
    "WS_FRAMES_PER_SECOND": 30, "WS_FRAMES_BURST": 200, "WS_MESSAGES_PER_SECOND": 5,
    "WS_MESSAGES_BURST": 30, "WS_UNAUTHENTICATED_PER_ADDRESS": 1000, "DRAIN_SECONDS": 5, "LOG_LEVEL": "info", "DOCS_ENABLED": True, "SHUTDOWN_GRACE_SECONDS": 10, "SESI_TIME_SCALE": 1,
    "SESI_TIME_ANCHOR": None, "INTERNAL_CORS_ORIGINS": (), "PUBLIC_CORS_ORIGINS": (), "ALLOW_EXPOSED_DEVELOPMENT": False,
    "ALLOW_PLAINTEXT_BACKENDS": False,
}  # fmt: skip
WRONG = {
    "ENVIRONMENT": "staging", "DATABASE_URL": "mysql://x", "DATABASE_POOL_SIZE": "3",
    "DATABASE_POOLER": "session", "DATABASE_READ_URL": "postgresql://one,two/sesi", "REDIS_URL": "localhost:6379", "PUBLIC_PORT": "0",
    "INTERNAL_PORT": "65536", "REALTIME_PORT": "http", "JOBS_PORT": "-1", "TRUSTED_PROXIES": "127.0.0.1,proxy.local",
    "JWT_SECRETS": "k1:too-short", "ACCESS_TOKEN_SECONDS": "soon", "REFRESH_TOKEN_DAYS": "0",
    "OPERATOR_REFRESH_TOKEN_HOURS": "1.5", "ERASURE_HASH_KEYS": "too-short",
    "RECEIPT_SIGNING_KEYS": "k1:" + "x" * 64, "GATEWAY_ENABLED": "maybe", "GATEWAY_BASE_URL": "ftp://gateway",
    "WEBHOOK_FALLBACK_ENABLED": "on and off", "IDENTITY_A_JWKS_URL": "keys.json", "IDENTITY_B_JWKS_URL": "keys.json",
    "OTP_SENDER": "pigeon", "OTP_HTTP_URL": "otp.local", "OTP_CHANNEL": "seventeen-letters", "PUSH_SENDER": "pigeon",
    "FCM_BASE_URL": "fcm",
    "PUSH_ACK_SECONDS": "0", "RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_BURST": "many", "WS_FRAMES_PER_SECOND": "0",
    "WS_FRAMES_BURST": "", "DRAIN_SECONDS": "-1", "LOG_LEVEL": "loud", "SHUTDOWN_GRACE_SECONDS": "0", "SESI_TIME_SCALE": "nan",
}  # fmt: skip


def error_of(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read(environ)
    return str(caught.value)


def test_empty_environment_gives_the_documented_defaults():
    found = read({})
    assert {name: getattr(found, name.lower()) for name in DEFAULTS} == DEFAULTS


@for_each("name", [name for name, text in WRONG.items() if text])
def test_invalid_variable_is_named_in_one_line_with_what_is_expected(name: str):
    message = error_of({name: WRONG[name]})
    assert message.startswith(f"{name}: expected ")
    assert "\n" not in message


@given(st.sampled_from(NAMES), st.text())
def test_any_text_in_any_variable_is_accepted_or_refused_by_name(name: str, text: str):
    message = name
    try:
        read({name: text})
    except SettingsError as error:
        message = str(error)
    assert name in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["JWT_SECRETS", "DATABASE_URL", "REDIS_URL"])
def test_invalid_secret_is_not_printed(name: str):
    assert "hunter2" not in error_of({name: "hunter2"})


def test_test_numbers_are_read_with_their_days():
    text = "+6281355557777:975310:2027-01-31, +6281234567891:000000,"
    first, second = read({"OTP_TEST_NUMBERS": text}).otp_test_numbers
    assert (first.phone, first.code, first.last_day) == ("+6281355557777", "975310", dt.date(2027, 1, 31))
    assert (second.phone, second.code, second.last_day) == ("+6281234567891", "000000", None)
    assert read({}).otp_test_numbers == ()


@for_each(
    ("entry", "reason"),
    [
        ("081355557777:975310", "number in international form"),
        ("975310", "number in international form"),
        ("+6281355557777", "code of 6 digits"),
        ("+6281355557777:12345", "code of 6 digits"),
        ("+6281355557777:9753107", "code of 6 digits"),
        ("+6281355557777:١٢٣٤٥٦", "code of 6 digits"),
        ("+6281355557777:975310:", "a day such as"),
        ("+6281355557777:975310:20270131", "a day such as"),
        ("+6281355557777:975310:2027-02-30", "a day such as"),
        ("+6281355557777:975310:2027-01-31:x", "a day such as"),
        ("+6281200000001:975310", "repeats the number"),
        ("+14155552671:975310", "country in OTP_COUNTRIES"),
        ("+622112345678:975310", "mobile number"),
    ],
)
def test_wrong_test_number_is_refused_by_position_without_being_shown(entry: str, reason: str):
    message = error_of({"OTP_TEST_NUMBERS": f"+6281200000001:111111,{entry}"})
    assert message.startswith("OTP_TEST_NUMBERS: expected ")
    assert "entry 2 " in message
    assert reason in message
    assert entry[-7:] not in message
    assert "111111" not in message


def test_test_numbers_need_a_last_day_in_production():
    entry = "+6281355557777:975310"
    assert "entry 1 needs a last day in production" in error_of({**PRODUCTION, "OTP_TEST_NUMBERS": entry})
    assert read({**PRODUCTION, "OTP_TEST_NUMBERS": f"{entry}:2020-01-31"}).otp_test_numbers[0].code == "975310"


@for_each("text", ["", "   ", "soon", "abc", "-", "12.5s", "nan", "inf", "1_0", ".", "0", "-5", "٣٠"])
def test_blank_or_invalid_heartbeat_cadence_is_30(text: str):
    assert read({"MITRA_HEARTBEAT_CADENCE_SECONDS": text}).mitra_heartbeat_cadence_seconds == 30


@for_each(
    ("text", "seconds"),
    [(" 12 ", 12), ("15.5", 15), ("15.0", 15), ("1.5e1", 15), ("+15", 15), ("0.5", 1), (".5", 1), ("3600.9", 3600)],
)
def test_numeric_heartbeat_cadence_is_used_in_whole_seconds(text: str, seconds: int):
    assert read({"MITRA_HEARTBEAT_CADENCE_SECONDS": text}).mitra_heartbeat_cadence_seconds == seconds


@given(st.floats(min_value=1, max_value=3_600))
def test_number_of_seconds_never_falls_back(seconds: float):
    assert read({"MITRA_HEARTBEAT_CADENCE_SECONDS": repr(seconds)}).mitra_heartbeat_cadence_seconds == int(seconds)


def test_secrets_keep_their_order():
    found = read({"JWT_SECRETS": f"new:{'n' * 32}, old:{'o' * 40}"})
    assert found.jwt_secrets == (("new", b"n" * 32), ("old", b"o" * 40))


def test_secret_may_contain_a_colon():
    assert read({"JWT_SECRETS": f"k:{'a:' * 16}"}).jwt_secrets == (("k", b"a:" * 16),)


@pytest.mark.parametrize(
    "text", [f"k:{'s' * 31}", "s" * 40, f":{'s' * 40}", ",", f"k:{'s' * 32},k:{'t' * 32}", f"k:{'s' * 32},short:x"]
)
def test_secrets_need_distinct_kids_and_32_bytes_each(text: str):
    assert error_of({"JWT_SECRETS": text}).startswith("JWT_SECRETS: ")


@pytest.mark.parametrize("text", ["3601", "3601.0", "1e400", "9" * 30])
def test_heartbeat_cadence_above_an_hour_is_refused(text: str):
    assert error_of({"MITRA_HEARTBEAT_CADENCE_SECONDS": text}).startswith("MITRA_HEARTBEAT_CADENCE_SECONDS: expected")
    assert read({"MITRA_HEARTBEAT_CADENCE_SECONDS": "3600"}).mitra_heartbeat_cadence_seconds == 3600


def test_gateway_key_with_a_colon_is_refused():
    assert error_of({"GATEWAY_SECRET_KEY": "xnd:key"}) == "GATEWAY_SECRET_KEY: expected a key without a colon"


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"GATEWAY_ENABLED": "true"}, ["GATEWAY_BASE_URL", "GATEWAY_SECRET_KEY"]),
        ({"GATEWAY_ENABLED": "true", "GATEWAY_BASE_URL": "https://g"}, ["GATEWAY_SECRET_KEY"]),
        ({"OTP_SENDER": "http"}, ["OTP_HTTP_URL"]),
        ({"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": "p"}, ["FCM_CREDENTIALS_FILE"]),
    ],
)
def test_adapter_with_missing_settings_names_them(environ: dict[str, str], named: list[str]):
    message = error_of(environ)
    assert all(name in message for name in named)


def test_production_starts_with_its_own_secrets():
    found = read(PRODUCTION)
    assert found.production
    assert not found.development_routes
    assert not found.development_payment_page
    assert not found.development_identities


@for_each("unset", [None, "", "  "])
@for_each("name", CHOSEN)
def test_production_without_a_choice_of_providers_is_refused(name: str, unset: str | None):
    environ = {one: value for one, value in {**PRODUCTION, name: unset}.items() if value is not None}
    message = error_of(environ)
    assert message.startswith(f"{name}: expected ")
    assert ("to be set in production" in message) or unset == "  "
    assert "\n" not in message
    read({**environ, name: "", "ENVIRONMENT": "development"})


def test_production_names_all_missing_choices_at_once():
    message = error_of({name: value for name, value in PRODUCTION.items() if name not in CHOSEN})
    assert message.startswith("GATEWAY_ENABLED, OTP_SENDER, PUSH_SENDER: expected to be set in production")


@pytest.mark.parametrize(
    ("text", "in_production", "elsewhere"), [("", False, True), ("true", True, True), ("0", False, False)]
)
def test_interface_documents_are_off_in_production_unless_configured(text: str, in_production: bool, elsewhere: bool):
    environ = {"DOCS_ENABLED": text}
    assert read({**PRODUCTION, **environ}).docs_enabled is in_production
    assert read(environ).docs_enabled is elsewhere


@pytest.mark.parametrize("environment", ["development", "test"])
def test_payment_page_is_absent_with_the_gateway_enabled(environment: str):
    gateway = {"GATEWAY_ENABLED": "true", "GATEWAY_BASE_URL": "http://127.0.0.1:9", "GATEWAY_SECRET_KEY": "k"}
    assert read({"ENVIRONMENT": environment}).development_payment_page
    assert not read({"ENVIRONMENT": environment, **gateway}).development_payment_page


@for_each(
    ("changed", "named"),
    [
        ({"JWT_SECRETS": settings.DEVELOPMENT_JWT_SECRETS}, "JWT_SECRETS"),
        ({"JWT_SECRETS": ""}, "JWT_SECRETS"),
        ({"JWT_SECRETS": f"{SECRET},{settings.DEVELOPMENT_JWT_SECRETS}"}, "JWT_SECRETS"),
        ({"GATEWAY_CALLBACK_TOKEN": settings.DEVELOPMENT_CALLBACK_TOKEN}, "GATEWAY_CALLBACK_TOKEN"),
        ({"GATEWAY_CALLBACK_TOKEN": f"{'t' * 24},{settings.DEVELOPMENT_CALLBACK_TOKEN}"}, "GATEWAY_CALLBACK_TOKEN"),
        ({"GATEWAY_CALLBACK_TOKEN": f"{'t' * 24},{'u' * 23}"}, "GATEWAY_CALLBACK_TOKEN"),
        ({"ERASURE_HASH_KEYS": settings.DEVELOPMENT_ERASURE_KEY}, "ERASURE_HASH_KEYS"),
        ({"ERASURE_HASH_KEYS": f"{'e' * 32},{settings.DEVELOPMENT_ERASURE_KEY}"}, "ERASURE_HASH_KEYS"),
        ({"RECEIPT_SIGNING_KEYS": ""}, "RECEIPT_SIGNING_KEYS"),
        (
            {"RECEIPT_SIGNING_KEYS": f"k2:{'cd' * 32},dev:{settings.DEVELOPMENT_RECEIPT_SEED.hex()}"},
            "RECEIPT_SIGNING_KEYS",
        ),
        ({"DEVELOPMENT_IDENTITIES": "true"}, "DEVELOPMENT_IDENTITIES"),
        ({"PASSWORD_ROUNDS": "9"}, "PASSWORD_ROUNDS"),
        ({"SESI_TIME_SCALE": "60"}, "SESI_TIME_SCALE"),
        ({"SESI_TIME_ANCHOR": "2026-01-01T00:00:00Z"}, "SESI_TIME_ANCHOR"),
    ],
)
def test_production_refuses_development_settings(changed: dict[str, str], named: str):
    assert named in error_of(PRODUCTION | changed)


@pytest.mark.parametrize(
    ("text", "in_production", "elsewhere"), [("", True, False), ("true", True, True), ("false", False, False)]
)
def test_initial_passwords_must_be_replaced_in_production_unless_configured(
    text: str, in_production: bool, elsewhere: bool
):
    environ = {"INITIAL_PASSWORDS_EXPIRE": text}
    assert read({**PRODUCTION, **environ}).initial_passwords_due is in_production
    assert read(environ).initial_passwords_due is elsewhere


@pytest.mark.parametrize("environment", ["development", "test"])
def test_development_identities_need_their_setting(environment: str):
    assert not read({"ENVIRONMENT": environment}).development_identities
    assert read({"ENVIRONMENT": environment, "DEVELOPMENT_IDENTITIES": "true"}).development_identities


def test_trial_has_development_identities(tmp_path: pathlib.Path):
    assert read(trial.variables(10, tmp_path)).development_identities


@pytest.mark.parametrize("environment", ["development", "test"])
def test_development_routes_and_time_scale_work_outside_production(environment: str):
    found = read({"ENVIRONMENT": environment, "SESI_TIME_SCALE": "60"})
    assert found.development_routes
    assert found.sesi_time_scale == 60


def test_blank_callback_token_counts_as_none():
    """Without a callback token every call gets 401, so it must be possible to configure none."""
    assert read({"GATEWAY_CALLBACK_TOKEN": ""}).gateway_callback_token == ()


def test_callback_tokens_are_separated_by_commas():
    assert read({"GATEWAY_CALLBACK_TOKEN": "one, two"}).gateway_callback_token == ("one", "two")


def test_list_of_settings_shows_every_variable_and_no_secret():
    rows = {
        name: (default, value) for name, default, value in shown(read(PRODUCTION | {"GATEWAY_SECRET_KEY": "hunter2"}))
    }
    assert list(rows) == NAMES
    assert rows["PUBLIC_PORT"] == ("8000", "8000")
    assert rows["GATEWAY_ENABLED"] == ("false", "false")
    assert rows["GATEWAY_SECRET_KEY"][1] == "****"
    everything = repr(rows)
    for secret in (
        "hunter2",
        "s" * 32,
        "a callback token of our own",
        settings.DEVELOPMENT_CALLBACK_TOKEN,
        "development-only",
    ):
        assert secret not in everything


OWN_SECRETS = {name: value for name, value in PRODUCTION.items() if name not in ("ENVIRONMENT", *CHOSEN)}
HOSTS = ["PUBLIC_HOST", "INTERNAL_HOST", "REALTIME_HOST", "JOBS_HOST"]
ELSEWHERE = ["0.0.0.0", "::", "10.0.0.5", "sesi.internal", "0", "2001:db8::1"]
HERE = ["127.0.0.1", "127.8.8.8", "::1", "localhost", "::ffff:127.0.0.1"]


@for_each("environment", ["development", "test"])
@for_each("host", HOSTS)
@for_each("secret", [*OWN_SECRETS])
def test_listener_off_loopback_with_a_development_secret_is_refused(environment: str, host: str, secret: str):
    own = {name: value for name, value in OWN_SECRETS.items() if name != secret}
    environ = {"ENVIRONMENT": environment, host: "0.0.0.0", "ALLOW_EXPOSED_DEVELOPMENT": "true", **own}
    message = error_of(environ)
    assert message.startswith(f"{host}: expected a loopback address, because {secret} is the development one: set ")
    assert "\n" not in message
    assert read({**environ, **OWN_SECRETS}).public_port == 8000


@for_each("address", ELSEWHERE)
@for_each("host", ["PUBLIC_HOST", "INTERNAL_HOST"])
def test_development_routes_off_loopback_require_the_setting(host: str, address: str):
    environ = {**OWN_SECRETS, host: address}
    assert error_of(environ).startswith(f"{host}: expected a loopback address, because it would offer the development")
    assert read({**environ, "ALLOW_EXPOSED_DEVELOPMENT": "true"}).development_routes
    assert not read({**PRODUCTION, **environ}).development_routes


@pytest.mark.parametrize("address", HERE)
def test_listeners_on_loopback_start_with_the_development_secrets(address: str):
    assert read(dict.fromkeys(HOSTS, address)).development_routes


REMOTE_HTTP = {
    "IDENTITY_A_JWKS_URL": {"IDENTITY_A_AUDIENCES": "a", "IDENTITY_A_ISSUERS": "i"},
    "IDENTITY_B_JWKS_URL": {"IDENTITY_B_AUDIENCES": "a", "IDENTITY_B_ISSUERS": "i"},
    "OTP_HTTP_URL": {},
    "TWILIO_VERIFY_BASE_URL": {},
    "GATEWAY_BASE_URL": {},
    "FCM_BASE_URL": {},
    "OTEL_EXPORTER_OTLP_ENDPOINT": {"TRACES_ENABLED": "true"},
}


@pytest.mark.parametrize("name", REMOTE_HTTP)
def test_plain_http_to_another_machine_in_production_is_refused(name: str):
    environ = {**PRODUCTION, **REMOTE_HTTP[name], name: "http://provider.example/keys"}
    assert error_of(environ).startswith(f"{name}: expected https:// in production")
    assert "\n" not in error_of(environ)
    for allowed in (
        {name: "https://provider.example/keys"},
        {name: "http://127.0.0.1:9000/keys"},
        {name: "http://[::1]:9000/keys"},
        {"ALLOW_PLAINTEXT_BACKENDS": "true"},
        {"ENVIRONMENT": "development"},
    ):
        read({**environ, **allowed})


@pytest.mark.parametrize(
    "url", ["http://localhost.example", "http://127.0.0.1@provider.example", "http://127.0.0.1.example", "http://"]
)
def test_plain_http_to_a_name_that_looks_like_loopback_is_refused(url: str):
    assert error_of({**PRODUCTION, "OTP_HTTP_URL": url}).startswith("OTP_HTTP_URL: ")


@for_each(
    "url",
    [
        "redis://redis:6379/0",
        "redis://user@redis/0",
        "redis://:@redis/0",
        "redis://redis?password=",
        "redis:///0?host=redis",
        "redis://10.0.0.7",
        "redis+cluster://localhost,10.0.0.7",
        "redis+sentinel://[::1]:26379,redis/main",
    ],
)
def test_redis_of_another_machine_without_a_password_is_refused_in_production(url: str):
    assert error_of({**PRODUCTION, "REDIS_URL": url}).startswith(
        "REDIS_URL: expected rediss://, or redis:// with a pass"
    )
    read({**PRODUCTION, "REDIS_URL": url, "ALLOW_PLAINTEXT_BACKENDS": "true"})
    read({**OWN_SECRETS, "REDIS_URL": url})


@for_each(
    "url",
    [
        "redis://:hunter2@redis:6379/0",
        "redis://redis?password=hunter2",
        "rediss://redis",
        "redis://localhost",
        "redis://[::1]:6379",
        "redis+cluster://localhost,[::1]:7000",
        "redis+cluster://:hunter2@one,two",
        "rediss+sentinel://one,two/main",
        "redis://",
        "unix:///run/redis.sock",
    ],
)
def test_redis_with_password_and_tls_or_on_this_machine_is_accepted_in_production(url: str):
    assert read({**PRODUCTION, "REDIS_URL": url}).redis_url == url


REMOTE_DATABASES = [
    "postgresql://u:p@db/sesi",
    "postgresql://u:p@db/sesi?sslmode=disable",
    "postgresql://u:p@db/sesi?sslmode=allow",
    "postgresql://u:p@db/sesi?sslmode=prefer",
    "postgresql://u:p@db/sesi?sslmode=require&sslmode=prefer",  # the last one counts
    "postgresql://u:p@127.0.0.1,db/sesi",
    "postgresql://u:p@127.0.0.1:5432,10.0.0.9:5432/sesi",
    "postgresql://u:p@[::1]:5432,[2001:db8::1]:5432/sesi",
    "postgresql://u:p@%2Frun%2Fpostgresql,db/sesi",
    "postgresql:///sesi?host=/run/postgresql,db",
    "postgresql:///sesi?host=db",
    "postgresql:///sesi",
    "postgresql://u:p@db?sslmode=prefer&host=localhost",
]


@for_each("url", REMOTE_DATABASES)
def test_database_without_required_tls_is_refused_in_production(url: str):
    message = error_of({**PRODUCTION, "DATABASE_URL": url})
    assert message.startswith("DATABASE_URL: expected sslmode=verify-full")
    assert "u:p" not in message
    read({**PRODUCTION, "DATABASE_URL": url, "ALLOW_PLAINTEXT_BACKENDS": "true"})
    read({**OWN_SECRETS, "DATABASE_URL": url})


def test_replica_without_required_tls_is_refused_in_production():
    message = error_of({**PRODUCTION, "DATABASE_READ_URL": "postgresql://u:p@replica/sesi"})
    assert message.startswith("DATABASE_READ_URL: expected sslmode=verify-full")


@for_each(
    "url",
    [
        "postgresql://u:p@db/sesi?sslmode=require",
        "postgresql://u:p@db1,db2:5433/sesi?sslmode=verify-ca",
        "postgres://u:p@db/sesi?sslmode=verify-full&sslrootcert=/etc/sesi/ca.pem",
        "postgresql://u:p@localhost/sesi",
        "postgresql://u:p@127.0.0.1:5432,[::1]:5433/sesi",
        "postgresql://u@%2Frun%2Fpostgresql/sesi",
        "postgresql:///sesi?host=/run/postgresql",
        "postgresql:///sesi?sslmode=require",
    ],
)
def test_database_with_tls_or_on_this_machine_is_accepted_in_production(url: str):
    assert read({**PRODUCTION, "DATABASE_URL": url}).database_url == url


SECRETS = [field.name.upper() for field in variables() if field.metadata["secret"]]
GOOD_SECRETS = {
    "DATABASE_URL": "postgresql://u:p@localhost/sesi",
    "DATABASE_READ_URL": "postgresql://u:p@localhost/sesi",
    "REDIS_URL": "redis://localhost",
    "JWT_SECRETS": SECRET,
    "GATEWAY_SECRET_KEY": "key",
    "ERASURE_HASH_KEYS": "e" * 32,
    "RECEIPT_SIGNING_KEYS": "k1:" + "ab" * 32,
    "OTP_TEST_NUMBERS": "+6281234567890:123456",
}


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_read_from_its_file(name: str, ending: str, tmp_path: pathlib.Path):
    value = GOOD_SECRETS.get(name, "a-token-of-our-own-for-the-file")
    path = tmp_path / "secret"
    path.write_bytes(value.encode() + ending.encode())
    assert read({f"{name}_FILE": str(path)}) == read({name: value})


@pytest.mark.parametrize("name", SECRETS)
def test_secret_in_environment_and_file_is_refused(name: str, tmp_path: pathlib.Path):
    path = tmp_path / "secret"
    path.write_text("hunter2")
    assert error_of({name: "other", f"{name}_FILE": str(path)}) == (
        f"{name} and {name}_FILE: expected one of them, got both"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"", "which is empty"),
        (b"\n", "which is empty"),
        (b"\xff\xfe hunter2", "it is not UTF-8 text"),
        (b"hunter2" * 10_000, "at most 65536 bytes"),
    ],
)
def test_unusable_secret_file_is_named_without_its_content(content: bytes | None, said: str, tmp_path: pathlib.Path):
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    message = error_of({"JWT_SECRETS_FILE": str(path)})
    assert message.startswith("JWT_SECRETS_FILE: expected ")
    assert said in message
    assert "hunter2" not in message
    assert "\n" not in message


def test_folder_as_a_secret_file_is_refused(tmp_path: pathlib.Path):
    assert error_of({"GATEWAY_SECRET_KEY_FILE": str(tmp_path)}).startswith(
        "GATEWAY_SECRET_KEY_FILE: expected a readable"
    )


def test_file_variable_of_a_setting_that_is_not_secret_is_ignored(tmp_path: pathlib.Path):
    assert read({"PUBLIC_PORT_FILE": str(tmp_path / "port")}).public_port == 8000
