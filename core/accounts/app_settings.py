"""The settings that apps read before sign-in: limits of phone codes, switches, oldest versions, maintenance."""

import datetime as dt

import attrs

from core.accounts.logins.otp import CODE_LENGTH
from core.base.field_types import TimeScale
from core.config.rules import notice_at
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class OtpConfig:
    """Limits of phone codes that apps need to know."""

    resend_cooldown_seconds: int
    max_per_phone_per_hour: int
    verify_max_attempts: int
    code_length: int


def otp_config(runtime: Runtime) -> OtpConfig:
    """Return the configured limits."""
    number = runtime.config.number
    return OtpConfig(
        resend_cooldown_seconds=number("otp_resend_cooldown_seconds"),
        max_per_phone_per_hour=number("otp_max_per_phone_per_hour"),
        verify_max_attempts=number("otp_verify_max_attempts"),
        code_length=CODE_LENGTH,
    )


@attrs.frozen(kw_only=True)
class MinimumVersions:
    """The oldest version of the apps on each platform that may be used, such as 1.4.0; null: any version."""

    android: str | None
    ios: str | None
    web: str | None


@attrs.frozen(kw_only=True)
class Maintenance:
    """A notice that apps show in the user's language until `until`; null: until it is removed."""

    message_id: str
    message_en: str
    until: dt.datetime | None


@attrs.frozen(kw_only=True)
class AppConfig:
    """Switches that change how apps behave, each named like its configuration row; the oldest usable versions; and the
    maintenance notice, null if there is none or its time is over.

    `time_scale` is how many seconds of service time pass in a real one: 1 in production.
    """

    early_end_customer_enabled: bool
    early_end_mitra_enabled: bool
    end_session_two_step_confirm: bool
    three_minute_warning_enabled: bool
    payment_method_qris_first: bool
    sensitive_flip_confirmation_enabled: bool
    sensitive_flag_one_way_latch: bool
    minimum_versions: MinimumVersions
    maintenance: Maintenance | None
    time_scale: TimeScale


SWITCHES = [field.name for field in attrs.fields(AppConfig) if field.type is bool]


def app_config(runtime: Runtime) -> AppConfig:
    """Return what the configuration rows say to apps."""
    values = runtime.config.values
    notice = notice_at(values["maintenance"], now=runtime.now())
    return AppConfig(
        **{name: runtime.config.flag(name) for name in SWITCHES},
        minimum_versions=MinimumVersions(
            **{field.name: values[f"minimum_version_{field.name}"] for field in attrs.fields(MinimumVersions)}
        ),
        maintenance=None if notice is None else Maintenance(**notice),
        time_scale=runtime.clock.scale,
    )
