"""Define every configuration row: type, default, bounds, group, and words in both languages (docs/configuration.md).

Seeding, validation, reading and the operators' pages all use this table, so a new row is one entry of it.
"""

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from core.base.languages import Text


@attrs.frozen(kw_only=True)
class Unit:
    """What a number counts, and the bounds of such numbers."""

    word: Text
    bounds: tuple[int, int] = (0, 1_000_000)


CHATS = Unit(word=Text(en="sessions", id="sesi"), bounds=(1, 100))  # with 0 no chat could begin
MITRAS = Unit(word=Text(en="mitras", id="mitra"), bounds=(0, 10_000))
SECONDS = Unit(word=Text(en="seconds", id="detik"), bounds=(1, 3_600))
MINUTES = Unit(word=Text(en="minutes", id="menit"), bounds=(1, 1_440))
HOURS = Unit(word=Text(en="hours", id="jam"), bounds=(1, 8_760))
DAYS = Unit(word=Text(en="days", id="hari"), bounds=(0, 36_500))
REQUESTS = Unit(word=Text(en="requests", id="permintaan"))
CODES = Unit(word=Text(en="codes", id="kode"))
ATTEMPTS = Unit(word=Text(en="attempts", id="percobaan"))
INVOICES = Unit(word=Text(en="invoices", id="faktur"))
EXTENSIONS = Unit(word=Text(en="extensions", id="perpanjangan"))


class Shape(enum.Enum):
    """The type of a row's value."""

    NUMBER = "number"  # {"value": int}, or float where a row has `fraction`
    FLAG = "flag"  # {"value": bool}
    CHOICE = "choice"  # {"value": one of `choices`}
    VERSION = "version"  # {"value": text such as 1.4.0, or null}
    NOTICE = "notice"  # {"value": {"message_id", "message_en", "until"}, or null}
    ZONE = "zone"  # {"value": a time zone such as Asia/Jakarta}
    DOCUMENT = "document"  # the JSON document itself


class Group(enum.Enum):
    """What rows are about. Operators see the groups in this order and save one at a time."""

    PAIRING = Text(en="Pairing", id="Pencarian")
    PAYMENT = Text(en="Payment", id="Pembayaran")
    EXTENSIONS = Text(en="Extensions", id="Perpanjangan")
    SESSIONS = Text(en="Sessions", id="Sesi")
    PRESENCE = Text(en="Unresponsive mitras", id="Mitra yang diam")
    CODES = Text(en="Sign-in by code", id="Masuk dengan kode")
    OPERATORS = Text(en="Operator sign-in", id="Masuknya operator")
    FIGURES = Text(en="Figures", id="Angka usaha")
    APPS = Text(en="Apps", id="Aplikasi")
    RETENTION = Text(en="Retention", id="Penyimpanan")
    UNUSED = Text(en="No effect", id="Tanpa pengaruh")

    @property
    def sensitive(self) -> bool:
        """Return whether the rows bound what a stranger may try, or delete data."""
        return self in (Group.CODES, Group.OPERATORS, Group.RETENTION)


@attrs.frozen(kw_only=True)
class Key:
    """One row of `app_config`.

    A number with `fraction` need not be a whole one. `in_production` is narrower than `bounds`, and holds in
    production. `choices` are the allowed values with their words.
    """

    name: str
    shape: Shape
    default: Any
    label: Text
    meaning: Text
    group: Group = Group.UNUSED
    unit: Unit | None = None
    bounds: tuple[int, int] | None = None
    in_production: tuple[int, int] | None = None
    fraction: bool = False
    choices: Mapping[str, Text] = attrs.field(factory=dict)

    @property
    def used(self) -> bool:
        """Return False for a legacy row that no code reads."""
        return self.group is not Group.UNUSED

    @property
    def sensitive(self) -> bool:
        """Return whether the row is in the operators' area `security`."""
        return self.group.sensitive

    @property
    def area(self) -> str:
        """Return the area of operators' rights that the row is in."""
        return "security" if self.sensitive else "config"

    def bounds_in(self, *, production: bool) -> tuple[int, int] | None:
        """Return the bounds of new values; None for a row whose value is not a number."""
        return self.in_production if production and self.in_production is not None else self.bounds


def number(name: str, default: int, unit: Unit, *, from_zero: bool = False, **more: Any) -> Key:
    """Return a row whose value is a number within the bounds of its unit; with `from_zero` it may be 0."""
    low, high = unit.bounds
    bounds = (0 if from_zero else low, high)
    return Key(name=name, shape=Shape.NUMBER, default=default, unit=unit, bounds=bounds, **more)


def flag(name: str, *, default: bool, label: Text, meaning: Text) -> Key:
    """Return a row whose value is true or false."""
    return Key(name=name, shape=Shape.FLAG, default=default, label=label, meaning=meaning)


def version(name: str, *, label: Text, meaning: Text) -> Key:
    """Return a row whose value is a version or null."""
    return Key(name=name, shape=Shape.VERSION, default=None, label=label, meaning=meaning)


def document(name: str, default: Any, *, label: Text, meaning: Text) -> Key:
    """Return a row whose value is a JSON document."""
    return Key(name=name, shape=Shape.DOCUMENT, default=default, label=label, meaning=meaning)


_SUPPORT = {
    "primary": {"label": "WhatsApp", "deeplink": "https://wa.me/62800000000"},
    "secondary": {"label": "Telegram", "deeplink": "https://t.me/sesi_support"},
}
_LEGACY_TIERS = [
    {"duration_minutes": 12, "price": 12000, "label": "12 menit"},
    {"duration_minutes": 30, "price": 27000, "label": "30 menit"},
    {"duration_minutes": 60, "price": 48000, "label": "60 menit"},
]

_ROWS: dict[Group, tuple[Key, ...]] = {
    Group.PAIRING: (
        number(
            "max_customers_per_mitra",
            3,
            CHATS,
            label=Text(en="Chats of a mitra at a time", id="Obrolan seorang mitra sekaligus"),
            meaning=Text(
                en="Concurrent active sessions of a mitra.", id="Sesi aktif seorang mitra pada saat yang sama."
            ),
        ),
        number(
            "searching_timeout_minutes",
            5,
            MINUTES,
            label=Text(en="Length of a search", id="Lama pencarian"),
            meaning=Text(
                en="How long a search lasts, even with no mitra eligible.",
                id="Lama pencarian, juga saat tak ada mitra yang bisa diundang.",
            ),
        ),
        number(
            "pairing_blast_timeout_seconds",
            60,
            SECONDS,
            label=Text(en="Length of a round", id="Lama putaran pencarian"),
            meaning=Text(
                en="Length of a round of a blast; rounds repeat until the search ends.",
                id="Lama satu putaran; berulang sampai pencarian berakhir.",
            ),
        ),
        number(
            "blast_size",
            0,
            MITRAS,
            label=Text(en="Mitras in a wave", id="Mitra per gelombang"),
            meaning=Text(
                en="Mitras in a wave of a blast, longest waiting first; 0: all are asked at once.",
                id="Mitra per gelombang, mulai dari yang paling lama menunggu; 0: semua ditanya sekaligus.",
            ),
        ),
        number(
            "blast_wave_seconds",
            10,
            SECONDS,
            label=Text(en="Time between waves", id="Jeda antargelombang"),
            meaning=Text(
                en="Time after which the next wave of a blast asks more mitras, if not all are asked at once.",
                id="Jeda sebelum gelombang berikutnya menanya mitra lain, bila tidak semua ditanya sekaligus.",
            ),
        ),
        number(
            "returning_chat_confirmation_timeout_seconds",
            20,
            SECONDS,
            label=Text(en="Time to answer a returning customer", id="Waktu menjawab pelanggan yang kembali"),
            meaning=Text(
                en="A mitra's time to answer a returning customer.", id="Waktu mitra menjawab pelanggan yang kembali."
            ),
        ),
    ),
    Group.PAYMENT: (
        number(
            "payment_session_timeout_minutes",
            20,
            MINUTES,
            label=Text(en="Time to pay", id="Batas waktu pembayaran"),
            meaning=Text(en="Lifetime of a payment request.", id="Masa berlaku permintaan pembayaran."),
        ),
        flag(
            "payment_method_qris_first",
            label=Text(en="QRIS first", id="QRIS di urutan pertama"),
            meaning=Text(
                en="Whether apps and invoices list QRIS first; otherwise invoices list it last.",
                id="Apakah aplikasi dan faktur menaruh QRIS paling atas; bila tidak, faktur menaruhnya paling bawah.",
            ),
            default=True,
        ),
        flag(
            "refuse_unservable_payments",
            label=Text(en="Refuse payments without a mitra", id="Tolak pembayaran tanpa mitra"),
            meaning=Text(
                en="Whether payment needs an available mitra, or a customer who accepts to wait.",
                id="Apakah pembayaran memerlukan mitra yang tersedia, atau pelanggan yang bersedia menunggu.",
            ),
            default=False,
        ),
        flag(
            "first_session_discount_requires_identity",
            label=Text(en="First-session discount needs an identity", id="Diskon sesi pertama perlu identitas"),
            meaning=Text(
                en="Whether the first-session discount needs a verified phone number or an identity.",
                id="Apakah diskon sesi pertama memerlukan nomor telepon terverifikasi atau identitas.",
            ),
            default=False,
        ),
        number(
            "invoices_max_per_account_per_hour",
            10,
            INVOICES,
            label=Text(en="Invoices of an account in an hour", id="Faktur satu akun dalam sejam"),
            meaning=Text(
                en="Invoices in an hour for an account that never paid; 0: no limit.",
                id="Faktur dalam sejam untuk akun yang belum pernah membayar; 0: tanpa batas.",
            ),
        ),
        number(
            "invoices_max_per_address_per_hour",
            2000,
            INVOICES,
            label=Text(en="Invoices of an address in an hour", id="Faktur satu alamat dalam sejam"),
            meaning=Text(
                en="Invoices in an hour for the accounts of an address that never paid; 0: no limit.",
                id="Faktur dalam sejam untuk akun-akun satu alamat yang belum pernah membayar; 0: tanpa batas.",
            ),
        ),
        number(
            "failure_due_hours",
            24,
            HOURS,
            label=Text(en="Time to resolve a failed pairing", id="Tenggat gagal dipasangkan"),
            meaning=Text(
                en="Time in which an operator acts on a failed pairing.",
                id="Waktu bagi operator untuk menangani yang gagal dipasangkan.",
            ),
        ),
    ),
    Group.EXTENSIONS: (
        number(
            "extension_timeout_seconds",
            60,
            SECONDS,
            label=Text(en="Time to answer an extension", id="Waktu menjawab perpanjangan"),
            meaning=Text(
                en="A mitra's time to answer an extension; the paid flow expects 10, which operators set by hand.",
                id="Waktu mitra menjawab perpanjangan; alur berbayar mengharapkan 10, yang disetel operator sendiri.",
            ),
        ),
        Key(
            name="extension_default_action_on_timeout",
            shape=Shape.CHOICE,
            default="auto_approve",
            label=Text(en="Extension without an answer", id="Perpanjangan tanpa jawaban"),
            meaning=Text(
                en="What happens when a mitra does not answer an extension.",
                id="Yang terjadi bila mitra tidak menjawab perpanjangan.",
            ),
            choices={"auto_approve": Text(en="approve", id="setujui"), "reject": Text(en="reject", id="tolak")},
        ),
        number(
            "max_extensions_per_session",
            0,
            EXTENSIONS,
            label=Text(en="Extensions of a session", id="Perpanjangan per sesi"),
            meaning=Text(
                en="Approved extensions of a session; 0: no limit.",
                id="Perpanjangan sesi yang disetujui; 0: tanpa batas.",
            ),
        ),
    ),
    Group.SESSIONS: (
        flag(
            "early_end_mitra_enabled",
            label=Text(en="Mitras may end early", id="Mitra boleh mengakhiri lebih awal"),
            meaning=Text(
                en="Whether a mitra may end a session early.", id="Apakah mitra boleh mengakhiri sesi lebih awal."
            ),
            default=False,
        ),
        flag(
            "early_end_customer_enabled",
            label=Text(en="Customers may end early", id="Pelanggan boleh mengakhiri lebih awal"),
            meaning=Text(
                en="Whether a customer may end a session early.",
                id="Apakah pelanggan boleh mengakhiri sesi lebih awal.",
            ),
            default=False,
        ),
        flag(
            "end_session_two_step_confirm",
            label=Text(en="Ask twice before an end", id="Konfirmasi dua langkah saat mengakhiri"),
            meaning=Text(
                en="Whether apps ask twice before they end a session.",
                id="Apakah aplikasi bertanya dua kali sebelum mengakhiri sesi.",
            ),
            default=True,
        ),
        flag(
            "three_minute_warning_enabled",
            label=Text(en="Warning of three minutes", id="Peringatan tiga menit"),
            meaning=Text(
                en="Whether both users are warned 180 s before the end.",
                id="Apakah kedua pihak diperingatkan 180 detik sebelum sesi berakhir.",
            ),
            default=True,
        ),
        number(
            "no_reply_minutes",
            5,
            MINUTES,
            label=Text(en="Chat without a reply", id="Obrolan tanpa balasan"),
            meaning=Text(
                en="How long a customer waits for a mitra's reply before operators see the chat; 0: never.",
                id="Berapa lama pelanggan menunggu balasan mitra sebelum operator melihat obrolannya; 0: tidak pernah.",
            ),
            from_zero=True,
        ),
        number(
            "peer_absent_seconds",
            0,
            SECONDS,
            label=Text(en="Party is absent after silence", id="Pihak dianggap pergi setelah diam"),
            meaning=Text(
                en="Silence after which a party is absent; 0: never.",
                id="Lama tanpa kabar sampai satu pihak dianggap pergi; 0: tidak pernah.",
            ),
            from_zero=True,
        ),
        flag(
            "fair_clock",
            label=Text(en="Give back the time of outages", id="Kembalikan waktu gangguan"),
            meaning=Text(
                en="Whether an outage takes no time from sessions: deadlines wait, and ends move.",
                id="Apakah gangguan tidak mengurangi waktu sesi: tenggat menunggu, dan akhir sesi digeser.",
            ),
            default=False,
        ),
        number(
            "fair_clock_max_seconds",
            900,
            SECONDS,
            label=Text(en="Time given back for an outage", id="Waktu yang dikembalikan per gangguan"),
            meaning=Text(
                en="Time that a session gets back for one outage.",
                id="Waktu yang didapat kembali sebuah sesi untuk satu gangguan.",
            ),
        ),
        flag(
            "sensitive_flip_confirmation_enabled",
            label=Text(en="Ask before a change of sensitivity", id="Konfirmasi perubahan sensitivitas"),
            meaning=Text(
                en="Whether the mitra app asks before it changes the topic sensitivity.",
                id="Apakah aplikasi mitra bertanya sebelum sensitivitas topik diubah.",
            ),
            default=True,
        ),
        flag(
            "sensitive_flag_one_way_latch",
            label=Text(en="Sensitive stays sensitive", id="Sensitif tetap sensitif"),
            meaning=Text(en="Whether a sensitive session stays sensitive.", id="Apakah sesi sensitif tetap sensitif."),
            default=False,
        ),
    ),
    Group.PRESENCE: (
        flag(
            "require_mitra_ping",
            label=Text(en="Take silent mitras offline", id="Jadikan mitra yang diam luring"),
            meaning=Text(en="Whether silent mitras are taken offline.", id="Apakah mitra yang diam dijadikan luring."),
            default=True,
        ),
        number(
            "mitra_stale_after_seconds",
            45,
            SECONDS,
            label=Text(en="Mitra is offline after silence", id="Mitra luring setelah diam"),
            meaning=Text(en="Silence after which a mitra is offline.", id="Lama diam sebelum mitra menjadi luring."),
            fraction=True,
        ),
        flag(
            "reachability_probe",
            label=Text(en="Ask silent phones", id="Tanya ponsel yang diam"),
            meaning=Text(
                en="Whether a push asks the phone of a silent mitra for a heartbeat.",
                id="Apakah notifikasi meminta heartbeat dari ponsel mitra yang diam.",
            ),
            default=False,
        ),
    ),
    Group.CODES: (
        number(
            "otp_max_per_phone_per_hour",
            3,
            REQUESTS,
            label=Text(en="Codes for a phone number in an hour", id="Kode per telepon dalam sejam"),
            meaning=Text(
                en="OTP requests for a phone number in an hour, of customers and mitras together.",
                id="Permintaan OTP per telepon dalam sejam, dari pelanggan dan mitra bersama-sama.",
            ),
            in_production=(0, 10),
        ),
        number(
            "otp_max_per_ip_per_hour",
            10,
            REQUESTS,
            label=Text(en="Codes for an address in an hour", id="Kode per alamat dalam sejam"),
            meaning=Text(
                en="OTP requests from an address in an hour.", id="Permintaan OTP dari satu alamat dalam sejam."
            ),
        ),
        number(
            "otp_max_per_hour",
            2000,
            CODES,
            label=Text(en="Codes of all customers in an hour", id="Kode semua pelanggan dalam sejam"),
            meaning=Text(
                en="Codes sent to all customers in an hour; strangers get half of them, and known callers are never "
                "refused. 0: no limit.",
                id="Kode untuk pelanggan dalam sejam, seluruh layanan; orang yang belum dikenal mendapat separuhnya, "
                "dan yang dikenal tidak pernah ditolak. 0: tanpa batas.",
            ),
        ),
        number(
            "otp_resend_cooldown_seconds",
            60,
            SECONDS,
            label=Text(en="Wait before another code", id="Jeda kirim ulang kode"),
            meaning=Text(en="Wait before another code may be requested.", id="Jeda sebelum kode lain dapat diminta."),
            in_production=(30, 3600),
        ),
        number(
            "otp_verify_max_attempts",
            5,
            ATTEMPTS,
            label=Text(en="Attempts at a code", id="Percobaan kode"),
            meaning=Text(en="Attempts to verify one code.", id="Percobaan memeriksa satu kode."),
            in_production=(0, 10),
        ),
        number(
            "anonymous_max_per_address_per_hour",
            3000,
            REQUESTS,
            label=Text(en="Anonymous sign-ins of an address in an hour", id="Masuk anonim per alamat dalam sejam"),
            meaning=Text(
                en="Anonymous sign-ins from an address in an hour; ten times as many from all addresses.",
                id="Masuk anonim dari satu alamat dalam sejam; sepuluh kali lipatnya dari semua alamat.",
            ),
        ),
    ),
    Group.OPERATORS: (
        number(
            "cc_login_max_attempts",
            5,
            ATTEMPTS,
            label=Text(en="Failed logins before a lockout", id="Gagal masuk sebelum terkunci"),
            meaning=Text(
                en="Consecutive failed logins that lock an operator's account, or one address of it.",
                id="Gagal masuk berturut-turut yang mengunci akun operator, atau satu alamatnya.",
            ),
            in_production=(0, 20),
        ),
        number(
            "cc_login_lockout_minutes",
            15,
            MINUTES,
            label=Text(en="Length of a lockout", id="Lama operator terkunci"),
            meaning=Text(en="How long a lockout lasts.", id="Lama terkunci."),
            in_production=(5, 1440),
        ),
        Key(
            name="cc_login_lockout_scope",
            shape=Shape.CHOICE,
            default="account",
            label=Text(en="What a lockout locks", id="Yang dikunci"),
            meaning=Text(
                en="Whether failed logins lock the account, or only the address that they came from.",
                id="Apakah gagal masuk mengunci akun, atau hanya alamat asalnya.",
            ),
            choices={"account": Text(en="the account", id="akun"), "address": Text(en="the address", id="alamatnya")},
        ),
        number(
            "cc_login_max_attempts_everywhere",
            50,
            ATTEMPTS,
            label=Text(en="Failed logins from all addresses", id="Gagal masuk dari semua alamat"),
            meaning=Text(
                en="Failed logins from all addresses before new ones are locked out, if only addresses are locked.",
                id="Gagal masuk dari semua alamat sebelum alamat baru dikunci, bila hanya alamat yang dikunci.",
            ),
            in_production=(0, 500),
        ),
        number(
            "cc_login_lockout_everywhere_minutes",
            60,
            MINUTES,
            label=Text(en="Lockout of new addresses", id="Lama alamat baru terkunci"),
            meaning=Text(
                en="How long a lockout of new addresses lasts, if only addresses are locked.",
                id="Lama alamat baru terkunci, bila hanya alamat yang dikunci.",
            ),
            in_production=(5, 1440),
        ),
    ),
    Group.FIGURES: (
        Key(
            name="business_time_zone",
            shape=Shape.ZONE,
            default="Asia/Jakarta",
            label=Text(en="Time zone of the business", id="Zona waktu usaha"),
            meaning=Text(en="The time zone of the days of the figures.", id="Zona waktu hari-hari pada angka usaha."),
        ),
    ),
    Group.APPS: (
        version(
            "minimum_version_android",
            label=Text(en="Oldest Android version", id="Versi Android tertua"),
            meaning=Text(
                en="Oldest version of the Android apps that may be used; none: any.",
                id="Versi aplikasi Android tertua yang boleh dipakai; tidak ada: semua.",
            ),
        ),
        version(
            "minimum_version_ios",
            label=Text(en="Oldest iOS version", id="Versi iOS tertua"),
            meaning=Text(
                en="Oldest version of the iOS apps that may be used; none: any.",
                id="Versi aplikasi iOS tertua yang boleh dipakai; tidak ada: semua.",
            ),
        ),
        version(
            "minimum_version_web",
            label=Text(en="Oldest web version", id="Versi web tertua"),
            meaning=Text(
                en="Oldest version of the web apps that may be used; none: any.",
                id="Versi aplikasi web tertua yang boleh dipakai; tidak ada: semua.",
            ),
        ),
        Key(
            name="maintenance",
            shape=Shape.NOTICE,
            default=None,
            label=Text(en="Maintenance notice", id="Pemberitahuan pemeliharaan"),
            meaning=Text(
                en="A notice that apps show at their start, in both languages, until a time.",
                id="Pemberitahuan yang ditampilkan aplikasi saat dibuka, dalam kedua bahasa, sampai suatu waktu.",
            ),
        ),
        document(
            "support_handles",
            _SUPPORT,
            label=Text(en="Contacts for help", id="Kontak bantuan"),
            meaning=Text(
                en="Contacts shown for help, each with a label and a deeplink.",
                id="Kontak bantuan, masing-masing dengan label dan tautan.",
            ),
        ),
    ),
    Group.RETENTION: (
        number(
            "retention_webhook_days",
            400,
            DAYS,
            label=Text(en="Webhook calls", id="Panggilan webhook"),
            meaning=Text(
                en="How long webhook calls are kept; they are removed by whole months. 0: always.",
                id="Lama panggilan webhook disimpan; dihapus per bulan. 0: selamanya.",
            ),
        ),
        number(
            "retention_invalid_webhook_days",
            7,
            DAYS,
            label=Text(en="Webhook calls without a valid token", id="Panggilan webhook tanpa token sah"),
            meaning=Text(
                en="How long webhook calls without a valid token are kept. 0: as long as others.",
                id="Lama panggilan webhook tanpa token sah disimpan. 0: selama yang lain.",
            ),
        ),
        number(
            "retention_messages_days",
            0,
            DAYS,
            label=Text(en="Texts of messages", id="Teks pesan"),
            meaning=Text(
                en="How long after its end a session keeps the texts of its messages and goodbyes. 0: always.",
                id="Lama teks pesan dan salam penutup disimpan setelah sesi berakhir. 0: selamanya.",
            ),
        ),
        number(
            "retention_otp_days",
            30,
            DAYS,
            label=Text(en="Requests for codes", id="Permintaan kode"),
            meaning=Text(
                en="How long requests for codes are kept. 0: always.", id="Lama permintaan kode disimpan. 0: selamanya."
            ),
        ),
        number(
            "retention_ended_auth_sessions_days",
            90,
            DAYS,
            label=Text(en="Ended sign-ins", id="Sesi masuk yang berakhir"),
            meaning=Text(
                en="How long auth sessions are kept that were revoked or expired. 0: always.",
                id="Lama sesi masuk yang dicabut atau kedaluwarsa disimpan. 0: selamanya.",
            ),
        ),
        number(
            "retention_unused_anonymous_days",
            90,
            DAYS,
            label=Text(en="Unused anonymous customers", id="Pelanggan anonim yang tak dipakai"),
            meaning=Text(
                en="How long anonymous customers without payment or session are kept after their last use. 0: always.",
                id="Lama pelanggan anonim tanpa pembayaran atau sesi disimpan setelah terakhir dipakai. 0: selamanya.",
            ),
        ),
    ),
    Group.UNUSED: (
        number(
            "mitra_ping_interval_seconds",
            15,
            SECONDS,
            label=Text(en="Heartbeat interval", id="Selang heartbeat"),
            meaning=Text(en="Legacy heartbeat interval.", id="Selang heartbeat yang lama."),
        ),
        flag(
            "free_trial_enabled",
            label=Text(en="Free trial", id="Uji coba gratis"),
            meaning=Text(en="Legacy free trial.", id="Uji coba gratis yang lama."),
            default=True,
        ),
        number(
            "free_trial_duration_minutes",
            5,
            MINUTES,
            label=Text(en="Length of the free trial", id="Lama uji coba gratis"),
            meaning=Text(en="Length of the legacy free trial.", id="Lama uji coba gratis yang lama."),
        ),
        document(
            "anonymity",
            {"enabled": False},
            label=Text(en="Anonymity", id="Anonimitas"),
            meaning=Text(en="Has no effect.", id="Tidak berpengaruh."),
        ),
        document(
            "price_tiers",
            _LEGACY_TIERS,
            label=Text(en="List of prices", id="Daftar harga"),
            meaning=Text(
                en="Legacy list of prices; operators change prices on their own page.",
                id="Daftar harga lama; operator mengubah harga di halamannya sendiri.",
            ),
        ),
    ),
}
KEYS: dict[str, Key] = {key.name: attrs.evolve(key, group=group) for group, keys in _ROWS.items() for key in keys}
