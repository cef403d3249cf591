"""Define every configuration row: type, default, bounds, unit and meaning (docs/configuration.md).

Seeding, validation, reading and the operators' pages all use this table.
"""

import enum
from typing import Any

import attrs

LIMIT = (0, 1_000_000)
CHATS = (1, 100)  # of one person at a time; with 0 no chat could begin
SECONDS = (1, 3_600)
MINUTES = (1, 1_440)
BLAST = (0, 10_000)
DAYS = (0, 36_500)
HOURS = (1, 8_760)


class Shape(enum.Enum):
    """The type of a row's value."""

    NUMBER = "number"  # {"value": int}, or float where a row has `fraction`
    FLAG = "flag"  # {"value": bool}
    CHOICE = "choice"  # {"value": one of `choices`}
    VERSION = "version"  # {"value": text such as 1.4.0, or null}
    NOTICE = "notice"  # {"value": {"message_id", "message_en", "until"}, or null}
    DOCUMENT = "document"  # the JSON document itself


@attrs.frozen(kw_only=True)
class Key:
    """One row of `app_config`. `used` is False for legacy rows that no code reads.

    A number with `fraction` need not be a whole one. `sensitive` rows bound what a stranger may try, or delete data:
    they are in the operators' area `security`. `in_production` is narrower than `bounds`, and holds in production.
    """

    name: str
    shape: Shape
    default: Any
    meaning: str
    unit: str | None = None
    bounds: tuple[int, int] | None = None
    fraction: bool = False
    choices: tuple[str, ...] = ()
    used: bool = True
    sensitive: bool = False
    in_production: tuple[int, int] | None = None

    @property
    def area(self) -> str:
        """Return the area of operators' rights that the row is in."""
        return "security" if self.sensitive else "config"

    def bounds_in(self, *, production: bool) -> tuple[int, int] | None:
        """Return the bounds of new values; None for a row whose value is not a number."""
        return self.in_production if production and self.in_production is not None else self.bounds


def number(name: str, default: int, bounds: tuple[int, int], unit: str, meaning: str, *, used: bool = True) -> Key:
    """Return a row whose value is a whole number within bounds."""
    return Key(name=name, shape=Shape.NUMBER, default=default, bounds=bounds, unit=unit, meaning=meaning, used=used)


def limit(
    name: str,
    default: int,
    bounds: tuple[int, int],
    unit: str,
    meaning: str,
    *,
    in_production: tuple[int, int] | None = None,
) -> Key:
    """Return a sensitive row whose value is a whole number within bounds."""
    return attrs.evolve(number(name, default, bounds, unit, meaning), sensitive=True, in_production=in_production)


def days(name: str, default: int, meaning: str) -> Key:
    """Return a sensitive row whose value is a number of days."""
    return limit(name, default, DAYS, "days", meaning)


def flag(name: str, meaning: str, *, default: bool, used: bool = True) -> Key:
    """Return a row whose value is true or false."""
    return Key(name=name, shape=Shape.FLAG, default=default, meaning=meaning, used=used)


def version(name: str, meaning: str) -> Key:
    """Return a row whose value is a version or null."""
    return Key(name=name, shape=Shape.VERSION, default=None, meaning=meaning)


def document(name: str, default: Any, meaning: str, *, used: bool = True) -> Key:
    """Return a row whose value is a JSON document."""
    return Key(name=name, shape=Shape.DOCUMENT, default=default, meaning=meaning, used=used)


_SUPPORT = {
    "primary": {"label": "WhatsApp", "deeplink": "https://wa.me/62800000000"},
    "secondary": {"label": "Telegram", "deeplink": "https://t.me/sesi_support"},
}
_LEGACY_TIERS = [
    {"duration_minutes": 12, "price": 12000, "label": "12 menit"},
    {"duration_minutes": 30, "price": 27000, "label": "30 menit"},
    {"duration_minutes": 60, "price": 48000, "label": "60 menit"},
]

KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        number("max_customers_per_mitra", 3, CHATS, "sessions", "Concurrent active sessions of a mitra."),
        limit(
            "otp_max_per_phone_per_hour",
            3,
            LIMIT,
            "requests",
            "OTP requests for a phone number in an hour, of customers and mitras together.",
            in_production=(0, 10),
        ),
        limit("otp_max_per_ip_per_hour", 10, LIMIT, "requests", "OTP requests from an address in an hour."),
        limit(
            "otp_max_per_hour",
            2000,
            LIMIT,
            "codes",
            "Codes sent to all customers in an hour; strangers get half of them, and known callers are never refused. "
            "0: no limit.",
        ),
        limit(
            "anonymous_max_per_address_per_hour",
            3_000,
            LIMIT,
            "requests",
            "Anonymous sign-ins from an address in an hour; ten times as many from all addresses.",
        ),
        limit(
            "otp_resend_cooldown_seconds",
            60,
            SECONDS,
            "seconds",
            "Wait before another code may be requested.",
            in_production=(30, 3_600),
        ),
        limit("otp_verify_max_attempts", 5, LIMIT, "attempts", "Attempts to verify one code.", in_production=(0, 10)),
        limit(
            "cc_login_max_attempts",
            5,
            LIMIT,
            "attempts",
            "Consecutive failed logins that lock an operator's account, or one address of it.",
            in_production=(0, 20),
        ),
        limit(
            "cc_login_lockout_minutes", 15, MINUTES, "minutes", "How long a lockout lasts.", in_production=(5, 1_440)
        ),
        Key(
            name="cc_login_lockout_scope",
            shape=Shape.CHOICE,
            default="account",
            choices=("account", "address"),
            sensitive=True,
            meaning="Whether failed logins lock the account, or only the address that they came from.",
        ),
        limit(
            "cc_login_max_attempts_everywhere",
            50,
            LIMIT,
            "attempts",
            "With the scope `address`: failed logins from all addresses before new addresses are locked out.",
            in_production=(0, 500),
        ),
        limit(
            "cc_login_lockout_everywhere_minutes",
            60,
            MINUTES,
            "minutes",
            "With the scope `address`: how long a lockout of new addresses lasts.",
            in_production=(5, 1_440),
        ),
        flag("require_mitra_ping", "Whether silent mitras are taken offline.", default=True),
        Key(
            name="mitra_stale_after_seconds",
            shape=Shape.NUMBER,
            default=45,
            bounds=SECONDS,
            fraction=True,
            unit="seconds",
            meaning="Silence after which a mitra is offline.",
        ),
        flag("reachability_probe", "Whether a push asks the phone of a silent mitra for a heartbeat.", default=False),
        number("mitra_ping_interval_seconds", 15, SECONDS, "seconds", "Legacy heartbeat interval.", used=False),
        number("payment_session_timeout_minutes", 20, MINUTES, "minutes", "Lifetime of a payment request."),
        number(
            "invoices_max_per_account_per_hour",
            10,
            LIMIT,
            "invoices",
            "Invoices in an hour for an account that never paid; 0: no limit.",
        ),
        number(
            "invoices_max_per_address_per_hour",
            2000,
            LIMIT,
            "invoices",
            "Invoices in an hour for the accounts of an address that never paid; 0: no limit.",
        ),
        number(
            "returning_chat_confirmation_timeout_seconds",
            20,
            SECONDS,
            "seconds",
            "A mitra's time to answer a returning customer.",
        ),
        number(
            "pairing_blast_timeout_seconds",
            60,
            SECONDS,
            "seconds",
            "Length of a round of a blast; rounds repeat until the search ends.",
        ),
        number(
            "blast_size",
            0,
            BLAST,
            "mitras",
            "Mitras in a wave of a blast, longest waiting first; 0: all are asked at once.",
        ),
        number(
            "blast_wave_seconds",
            10,
            SECONDS,
            "seconds",
            "Time after which the next wave of a blast asks more mitras, if `blast_size` is not 0.",
        ),
        number("peer_absent_seconds", 0, (0, 3_600), "seconds", "Silence after which a party is absent; 0: never."),
        number(
            "extension_timeout_seconds",
            60,
            SECONDS,
            "seconds",
            "A mitra's time to answer an extension; the paid flow expects 10, which operators set by hand.",
        ),
        number("max_extensions_per_session", 0, LIMIT, "extensions", "Approved extensions of a session; 0: no limit."),
        Key(
            name="extension_default_action_on_timeout",
            shape=Shape.CHOICE,
            default="auto_approve",
            choices=("auto_approve", "reject"),
            meaning="What happens when a mitra does not answer an extension.",
        ),
        number(
            "searching_timeout_minutes",
            5,
            MINUTES,
            "minutes",
            "How long a search lasts, even with no mitra eligible.",
        ),
        number(
            "no_reply_minutes",
            5,
            (0, 1_440),
            "minutes",
            "How long a customer waits for a mitra's reply before operators see the chat; 0: never.",
        ),
        number("failure_due_hours", 24, HOURS, "hours", "Time in which an operator acts on a failed pairing."),
        flag("early_end_mitra_enabled", "Whether a mitra may end a session early.", default=False),
        flag("early_end_customer_enabled", "Whether a customer may end a session early.", default=False),
        flag("end_session_two_step_confirm", "Whether apps ask twice before they end a session.", default=True),
        flag("three_minute_warning_enabled", "Whether both users are warned 180 s before the end.", default=True),
        flag(
            "payment_method_qris_first",
            "Whether apps and invoices list QRIS first; otherwise invoices list it last.",
            default=True,
        ),
        flag(
            "sensitive_flip_confirmation_enabled",
            "Whether the mitra app asks before it changes the topic sensitivity.",
            default=True,
        ),
        flag("sensitive_flag_one_way_latch", "Whether a sensitive session stays sensitive.", default=False),
        flag(
            "first_session_discount_requires_identity",
            "Whether the first-session discount needs a verified phone number or an identity.",
            default=False,
        ),
        flag(
            "fair_clock", "Whether an outage takes no time from sessions: deadlines wait, and ends move.", default=False
        ),
        number("fair_clock_max_seconds", 900, SECONDS, "seconds", "Time that a session gets back for one outage."),
        flag("refuse_unservable_payments", "Whether payment needs an available mitra or `accept_wait`.", default=False),
        version("minimum_version_android", "Oldest version of the Android apps that may be used; none: any."),
        version("minimum_version_ios", "Oldest version of the iOS apps that may be used; none: any."),
        version("minimum_version_web", "Oldest version of the web apps that may be used; none: any."),
        Key(
            name="maintenance",
            shape=Shape.NOTICE,
            default=None,
            meaning="A notice that apps show at their start, in both languages, until a time.",
        ),
        days(
            "retention_webhook_days",
            400,
            "How long webhook calls are kept; they are removed by whole months. 0: always.",
        ),
        days(
            "retention_invalid_webhook_days",
            7,
            "How long webhook calls without a valid token are kept. 0: as long as others.",
        ),
        days(
            "retention_messages_days",
            0,
            "How long after its end a session keeps the texts of its messages and goodbyes. 0: always.",
        ),
        days("retention_otp_days", 30, "How long requests for codes are kept. 0: always."),
        days(
            "retention_ended_auth_sessions_days",
            90,
            "How long auth sessions are kept that were revoked or expired. 0: always.",
        ),
        days(
            "retention_unused_anonymous_days",
            90,
            "How long anonymous customers without a payment or session are kept after their last use. 0: always.",
        ),
        flag("free_trial_enabled", "Legacy free trial.", default=True, used=False),
        number("free_trial_duration_minutes", 5, MINUTES, "minutes", "Legacy free trial.", used=False),
        document("anonymity", {"enabled": False}, "Has no effect.", used=False),
        document("price_tiers", _LEGACY_TIERS, "Legacy tier list; prices are in pricing_tiers.", used=False),
        document("support_handles", _SUPPORT, "Contacts shown for help, each with a label and a deeplink."),
    )
}
