"""The `sesi` command line. Exit codes: 0 success, 1 failure, 2 wrong usage."""

import argparse
import functools
import importlib.util
import io
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import asyncpg

from core.base.errors import DomainError, Unavailable, ValidationFailed
from core.base.field_types import MAX_INT
from core.base.languages import DEFAULT
from core.settings.settings import SettingsError
from core.telemetry.metrics import VERSION
from tools.commands import Failed, backup
from tools.commands.arguments import between, days, moment
from tools.commands.backups import BackupError
from tools.embedded.programs import EmbeddedError

TRIAL = 10.0  # a person has time to type, and a session of 12 minutes ends after 72 seconds
FASTEST_TRIAL = 60.0  # beyond it, configuration rows can't give people enough real time to react
LONGEST_DEMO_SCALE = 120.0  # beyond it, human-like pauses are too long in service time
PROCESSES = {
    "api": "run an API process: the public and the internal listener",
    "realtime": "run a realtime process: WebSockets and pushes",
    "jobs": "run a jobs process: deadlines and sweeps",
}


def of(name: str) -> Callable[[argparse.Namespace], int]:
    """Return a command by its module in tools/commands and its function.

    The module is imported when the command runs: a process of the service needs none of the other commands.
    """
    return functools.partial(_run, *name.split("."))


def _run(module: str, function: str, args: argparse.Namespace) -> int:
    return getattr(importlib.import_module(f"tools.commands.{module}"), function)(args)


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    root = argparse.ArgumentParser(
        prog="sesi", description="Paid, time-boxed one-to-one chat: the service and its tools."
    )
    root.add_argument("--version", action="version", version=f"sesi {VERSION}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], help_: str, parent: Any = commands) -> Any:
        made = parent.add_parser(name, help=help_, description=help_)
        made.set_defaults(run=run)
        return made

    add(
        "up",
        of("service.up"),
        "run the whole service on this machine; uses embedded PostgreSQL and Valkey unless URLs are set",
    )
    trial = add("try", of("service.trial"), "run a temporary service with two mitras, to try it out in a browser")
    trial.add_argument(
        "--scale",
        type=between(float, 1.0, FASTEST_TRIAL),
        default=TRIAL,
        help="speed of service time, 1 to 60 (default 10)",
    )
    for name, what in PROCESSES.items():
        add(name, of(f"process.{name}"), what)
    made = add("migrate", of("data.run_migrations"), "bring the database up to date; safe to repeat")
    made.add_argument("--check", action="store_true", help="change nothing; exit with 1 if there are migrations to run")
    made.add_argument(
        "--direct", action="store_true", help="DATABASE_URL names the server, whatever DATABASE_POOLER says"
    )
    seed = commands.add_parser("seed", help="add prices, or users for development").add_subparsers(
        required=True, metavar="WHAT"
    )
    tiers = add("tiers", of("data.seed_tiers"), "add missing price tiers and the first-session discount", seed)
    tiers.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help='JSON: {"tiers": [{"mode", "minutes", "price_idr", "tag"?}], "first_session_discount": {"enabled", '
        '"price_idr", "gimmick_price_idr", "duration_minutes", "modes"}?}; the default prices if omitted',
    )
    add("demo", of("data.seed_demo"), "add some mitras and customers for development; refused in production", seed)
    operator = commands.add_parser("operator", help="manage operators").add_subparsers(required=True, metavar="WHAT")
    create = add("create", of("data.operator"), "add an operator; the password is read from standard input", operator)
    create.add_argument("--email", required=True)
    create.add_argument("--display-name", required=True)
    create.add_argument("--role", required=True)
    create.add_argument("--password-stdin", action="store_true", required=True)
    reset = add("reset-totp", of("data.reset_totp"), "remove an operator's second factor and sign them out", operator)
    reset.add_argument("--email", required=True)
    unlock = add("unlock", of("data.unlock"), "end the lockout of an operator after too many failed sign-ins", operator)
    unlock.add_argument("--email", required=True)
    with_gateway = commands.add_parser(
        "gateway", help="compare with the payment gateway, or act as it for development"
    ).add_subparsers(required=True, metavar="WHAT")
    reconcile = add(
        "reconcile",
        of("gateway.reconcile_invoices"),
        "compare the gateway's invoices and refunds with the service's; exit with 1 if they differ",
        with_gateway,
    )
    reconcile.add_argument(
        "--since", type=moment, required=True, metavar="TIME", help="compare from then on: ISO 8601 with a zone"
    )
    reconcile.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    reconcile.add_argument(
        "--apply", action="store_true", help="record money that the gateway has and the service lacks"
    )
    add_privacy(add, commands)
    add_receipts(add, commands)
    add_simulate(add)
    pay = add(
        "pay",
        of("data.pay"),
        "call the webhook as the gateway would, for a payment request; refused in production",
        with_gateway,
    )
    pay.add_argument("payment_request_id", metavar="PAYMENT_REQUEST_ID")
    pay.add_argument("--status", default="PAID", choices=["PAID", "SETTLED", "EXPIRED", "PENDING"])
    pay.add_argument("--repeat", type=between(int, 1, 1000), default=1, metavar="N")
    pay.add_argument("--late", action="store_true", help="date the payment one day from now")
    import_call = add(
        "import",
        of("data.webhooks_import"),
        "process the webhook calls in a fallback file; safe to repeat",
        commands.add_parser("webhooks", help="import webhook calls of the gateway").add_subparsers(
            required=True, metavar="WHAT"
        ),
    )
    import_call.add_argument("file", metavar="FILE")
    import_call.add_argument(
        "--trust-unsealed",
        action="store_true",
        help="accept lines without a valid seal of the service, which are old or whose secret has been removed",
    )
    demo = add(
        "demo", of("service.demo"), "play a whole paid session through the public interfaces, then audit the ledger"
    )
    demo.add_argument(
        "--scale",
        type=between(float, 1.0, LONGEST_DEMO_SCALE),
        default=60.0,
        help="speed of service time, 1 to 120 (default 60)",
    )
    demo.add_argument("--running", action="store_true", help="use the running service instead of a temporary one")
    if importlib.util.find_spec("tools.bench") is not None:  # `bench` and `grow` are commands of a checkout
        importlib.import_module("tools.bench.commands").add_commands(add)
    audit = add("audit", of("data.audit_ledger"), "check the whole database for violations of the invariants")
    audit.add_argument("--rules", action="store_true", help="only list the rules and what each one checks")
    accepted = add(
        "accept",
        of("data.accept_violations"),
        "accept violations whose cause is known, so that no audit counts them",
        audit.add_subparsers(metavar="accept"),
    )
    accepted.add_argument("rule", metavar="RULE", help="the name of the rule, as the audit prints it")
    accepted.add_argument("ids", metavar="ID", nargs="*", help="the rows that break it, as the audit prints them")
    accepted.add_argument("--all", action="store_true", help="accept every row that breaks the rule now")
    accepted.add_argument(
        "--reason", required=True, metavar="TEXT", help="the cause, for later readers; name no person"
    )
    accepted.add_argument("--operator", required=True, metavar="EMAIL", help="the operator who accepts them")
    proof = add(
        "restore-proof",
        of("backup.restore_proof"),
        "restore the latest backup into a temporary server, audit it and compare it with the gateway",
    )
    backup.add_arguments(proof)
    add(
        "settings",
        of("service.settings"),
        "show every setting with its default and effective value; secrets are masked",
    )
    listener = add("openapi", of("service.openapi"), "print the OpenAPI 3.1 document of a listener (JSON)")
    listener.add_argument("listener", choices=["public", "internal"], help="for apps and the gateway, or for operators")
    add("asyncapi", of("service.asyncapi"), "print the AsyncAPI 3.0 document of the WebSocket interface (JSON)")
    examine = add(
        "doctor",
        of("service.run_doctor"),
        "check settings, machine, servers and providers, and say how to fix problems",
    )
    examine.add_argument(
        "--url", metavar="URL", help="the public address of the service, which is then checked as well"
    )
    examine.add_argument("--stop-seconds", type=int, metavar="N", help="the supervisor's stop time, in seconds")
    examine.add_argument("--stanza", metavar="NAME", help="the pgBackRest stanza, whose last backup is then checked")
    examine.add_argument(
        "--backup-config", type=pathlib.Path, metavar="FILE", help="the configuration file of pgBackRest"
    )
    examine.add_argument("--strict", action="store_true", help="exit with 1 for warnings as well")
    examine.add_argument("--json", action="store_true", help="print the findings as JSON")
    return root


def add_privacy(add: Any, commands: Any) -> None:
    """Add the commands about people's data."""
    customer = commands.add_parser("customer", help="export or erase a customer's data").add_subparsers(
        required=True, metavar="WHAT"
    )
    mitra = commands.add_parser("mitra", help="export or erase a mitra's data").add_subparsers(
        required=True, metavar="WHAT"
    )
    for made in (
        add("export", of("privacy.export_customer"), "print everything that is stored of a customer (JSON)", customer),
        add("erase", of("privacy.erase_customer"), "erase a customer's personal data; this can't be undone", customer),
        add("export", of("privacy.export_mitra"), "print everything that is stored of a mitra (JSON)", mitra),
        add("erase", of("privacy.erase_mitra"), "erase the personal data of a deactivated mitra", mitra),
    ):
        made.add_argument("id", metavar="ID")
        made.add_argument("--operator", metavar="EMAIL", help="the operator to name in the audit log")
    erasures = commands.add_parser("erasures", help="erase again after a restored backup").add_subparsers(
        required=True, metavar="WHAT"
    )
    add(
        "list",
        of("privacy.list_erasures"),
        "print all erasures, one JSON object a line, to keep outside the backups",
        erasures,
    )
    again = add("reapply", of("privacy.reapply"), "erase the users of a list again; safe to repeat", erasures)
    again.add_argument("file", metavar="FILE", help="the output of `sesi erasures list`, or logs of the service")


def add_receipts(add: Any, commands: Any) -> None:
    """Add the commands about digests and receipts."""
    receipt = commands.add_parser("receipt", help="verify receipts of sessions").add_subparsers(
        required=True, metavar="WHAT"
    )
    verify = add("verify", of("receipts.verify"), "verify a receipt; needs no service with a file of keys", receipt)
    verify.add_argument("file", metavar="FILE", help="the answer of `…/chat/sessions/:id/receipt`")
    verify.add_argument(
        "--keys",
        metavar="URL|FILE",
        help="the key set of `/.well-known/sesi-receipts.json`, or its address; without it RECEIPT_SIGNING_KEYS",
    )
    session = commands.add_parser("session", help="look into a session").add_subparsers(required=True, metavar="WHAT")
    digest = add(
        "digest", of("receipts.digest"), "print the digest of a session's chat, to compare with a phone's", session
    )
    digest.add_argument("id", metavar="ID")
    digest.add_argument("--seq", type=between(int, 1, MAX_INT), metavar="N", help="up to this message only")


def add_simulate(add: Any) -> None:
    """Add the command that tries settings before they are live."""
    made = add(
        "simulate", of("simulate.simulate"), "forecast by the history what other settings would do; changes nothing"
    )
    made.add_argument("--since", type=days, default=28, metavar="DAYS", help="the history: such as 28d (the default)")
    made.add_argument(
        "--set", action="append", default=[], metavar="ROW=VALUE", help="a configuration row, such as blast_size=5"
    )
    made.add_argument(
        "--add", action="append", default=[], metavar="SHIFT", help="mitras who are online as well: 2@fri/18:00-22:00"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def read(argv: list[str]) -> argparse.Namespace:
    """Read the arguments. A process has none, and is not kept waiting for the options of all other commands."""
    if argv in [[name] for name in PROCESSES]:
        return argparse.Namespace(run=of(f"process.{argv[0]}"))
    return parser().parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    args = read(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # live output through pipes
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        for line in complaint(error):
            print(f"sesi: {line}", file=sys.stderr)
        return 1


def complaint(error: Exception) -> list[str]:
    """Return the lines that tell a user why a command failed."""
    match error:
        case ValidationFailed():
            fields = (error.details_in(DEFAULT) or {}).get("fields", [])
            return [f"{field['field']} {field['message']}" for field in fields]
        case asyncpg.UndefinedTableError():
            return ["the database is not migrated: run `sesi migrate`"]
        case Unavailable():
            return ["the database or Redis does not answer: run `sesi doctor`"]
        case SettingsError() | EmbeddedError() | BackupError() | Failed() | DomainError() | RuntimeError():
            return [str(error)]
        case _:
            return [f"{type(error).__name__}: {error}. Run `sesi doctor`."]


if __name__ == "__main__":
    sys.exit(main())
