"""The `sesi` command line. Exit codes: 0 success, 1 failure, 2 wrong usage."""

import argparse
import asyncio
import datetime as dt
import io
import json
import os
import pathlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from core.base import logs
from core.base.errors import DomainError, Unavailable, ValidationFailed
from core.base.ids import parse_id
from core.base.languages import DEFAULT
from core.base.process import end_as_by_hand
from core.base.settings import SettingsError, shown
from core.flows import setup
from core.flows.setup import TierSeed
from core.operators import totp
from core.pricing.rules import Promotion
from core.reactions import react
from core.reads import payments
from core.reads.ledger.audit import audit
from core.reads.ledger.rules import RULES
from core.runtime import Reaction, Runtime, open_runtime
from tools import doctor, environment, gateway, migrate
from tools.arguments import between
from tools.bench.commands import add_commands
from tools.embedded.programs import EmbeddedError

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 1000  # lines for programs are never wrapped
HOUR = dt.timedelta(hours=1)
LONGEST_DEMO_SCALE = 120.0  # beyond it, human-like pauses are too long in service time


class Failed(Exception):
    """The command failed. The message says why and what to do."""


def _with_runtime(work: Callable[[Runtime], Awaitable[int]], *, react: Reaction | None = None) -> int:
    """Run `work` against the service's database, without opening a port. `react` returns the flows that follow it.

    Raises Failed if the database is not ready.
    """

    async def run() -> int:
        runtime = await open_runtime(environment.read(), pool_size=2, react=react)
        try:
            ready, _, why = await runtime.readiness.check()
            if not ready:
                raise Failed(why or "the database is not ready")
            runtime.tasks.spawn(runtime.bus.run_writer())
            return await work(runtime)
        finally:
            await runtime.close()

    return asyncio.run(run())


def _api(_: argparse.Namespace) -> int:
    from api.server import serve

    return _serve("api", serve)


def _realtime(_: argparse.Namespace) -> int:
    from realtime.server import serve

    return _serve("realtime", serve)


def _jobs(_: argparse.Namespace) -> int:
    from jobs.server import serve

    return _serve("jobs", serve)


def _serve(name: str, serve: Callable[[Any], Awaitable[int]]) -> int:
    settings = environment.read()
    logs.configure(name)
    return uvloop.run(serve(settings))  # type: ignore[arg-type]


def _up(_: argparse.Namespace) -> int:
    from tools.up import up

    return asyncio.run(up(environment.read(servers=False)))


def _demo(args: argparse.Namespace) -> int:
    from tools.demo import demo

    end_as_by_hand()
    return asyncio.run(demo(scale=args.scale, running=args.running))


def _migrate(args: argparse.Namespace) -> int:
    url = environment.read().database_url
    if args.check:
        missing = asyncio.run(migrate.pending(url))
        console.print(
            "The database is up to date." if not missing else f"{len(missing)} migrations to run: use `sesi migrate`."
        )
        return 1 if missing else 0
    ran = asyncio.run(migrate.migrate(url))

    async def seed() -> int:
        runtime = await open_runtime(environment.read(), pool_size=2)
        try:
            return await setup.seed_defaults(runtime)
        finally:
            await runtime.close()

    added = asyncio.run(seed())
    console.print(f"{ran} migrations ran, {added} configuration rows were added. The database is up to date.")
    return 0


def _seed_tiers(args: argparse.Namespace) -> int:
    tiers, promotion = setup.TIERS, setup.PROMOTION
    if args.file is not None:
        try:
            raw = json.loads(pathlib.Path(args.file).read_text())
            if unknown := sorted(set(raw) - {"tiers", "first_session_discount"}):
                raise ValueError(f"{', '.join(unknown)}: unknown")
            tiers = tuple(TierSeed(**tier) for tier in raw.get("tiers", []))
            given = raw.get("first_session_discount")
            promotion = Promotion(**given) if given else None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Failed(f"{args.file} is not a valid tiers file ({error}); see `sesi seed tiers --help`") from error

    async def work(runtime: Runtime) -> int:
        return _added(await setup.seed_prices(runtime, tiers, promotion))

    return _with_runtime(work)


def _seed_demo(_: argparse.Namespace) -> int:
    environment.not_in_production(environment.read())

    async def work(runtime: Runtime) -> int:
        return _added(await setup.seed_demo(runtime))

    return _with_runtime(work)


def _added(lines: list[str]) -> int:
    for line in lines:
        console.print(f"added  {line}")
    console.print(f"{len(lines)} added; existing rows are unchanged.")
    return 0


def _operator(args: argparse.Namespace) -> int:
    password = sys.stdin.readline().rstrip("\r\n")

    async def work(runtime: Runtime) -> int:
        try:
            made = await setup.create_operator(
                runtime, email=args.email, display_name=args.display_name, role=args.role, password=password
            )
        except LookupError as error:
            raise Failed(f"unknown role {args.role!r}; `administrator` always exists") from error
        if made is None:
            raise Failed(f"an operator with the e-mail address {args.email} already exists")
        console.print(
            f"Created operator {args.email} ({args.role}). They sign in at /internal/auth/login.", markup=False
        )
        if runtime.settings.initial_passwords_due:
            console.print("They must choose a new password at the first sign-in.")
        _print_enrolment_code(made.enrolment_code)
        return 0

    return _with_runtime(work)


def _reset_totp(args: argparse.Namespace) -> int:
    async def work(runtime: Runtime) -> int:
        try:
            code = await setup.reset_totp(runtime, email=args.email)
        except LookupError as error:
            raise Failed(f"no operator has the e-mail address {args.email}") from error
        console.print(
            f"Removed the second factor of operator {args.email} and signed them out everywhere.", markup=False
        )
        _print_enrolment_code(code)
        return 0

    return _with_runtime(work)


def _print_enrolment_code(code: str | None) -> None:
    if code is not None:
        console.print(
            f"The role requires a second factor. One-time code to set it up, valid for {totp.ENROLMENT_CODE_FOR // HOUR} h: {code}",
            markup=False,
            soft_wrap=True,
        )


def _pay(args: argparse.Namespace) -> int:
    environment.not_in_production(environment.read())

    async def work(runtime: Runtime) -> int:
        payment_id = parse_id(args.payment_request_id)
        if payment_id is None:
            raise Failed(f"{args.payment_request_id!r} is not a payment request id (a UUID)")
        view = await payments.for_development_page(runtime, payment_id)
        call = gateway.notification(
            runtime.settings,
            runtime.clock,
            payment_request_id=payment_id,
            amount=view.amount,
            status=args.status,
            invoice_id=view.gateway_invoice_id,
            late=args.late,
        )
        worst = 0
        for _ in range(args.repeat):
            answer = await asyncio.to_thread(gateway.post, runtime.settings, call)
            console.print(f"{answer.status_code}  {answer.text}")
            worst = max(worst, answer.status_code)
        return 0 if worst < 400 else 1

    return _with_runtime(work)


def _webhooks_import(args: argparse.Namespace) -> int:
    from tools import webhooks

    path = pathlib.Path(args.file)
    if not path.is_file():
        raise Failed(f"{path}: file not found; the service writes fallback files to WEBHOOK_FALLBACK_DIR")

    async def work(runtime: Runtime) -> int:
        return await webhooks.import_call(runtime, path, console, trust_unsealed=args.trust_unsealed)

    return _with_runtime(work, react=react)


def _audit(args: argparse.Namespace) -> int:
    if args.rules:
        table = Table("rule", "proves")
        for rule in RULES:
            table.add_row(rule.name, rule.proves)
        console.print(table)
        return 0

    async def work(runtime: Runtime) -> int:
        books = await audit(runtime)
        for violation in books.violations:
            console.print(violation.rule, style="red", end="")
            console.print(f": {violation.id}: {violation.detail}", markup=False)
        count = len(books.violations)
        console.print(f"{books.sessions} sessions, {books.payments} payments, {count} violations")
        return 1 if count else 0

    return _with_runtime(work)


def _settings(_: argparse.Namespace) -> int:
    try:
        settings = environment.read()
    except SettingsError:  # no embedded servers run, so their addresses are unknown
        settings = environment.read(servers=False)
    table = Table()
    for title in ("variable", "default", "effective"):
        table.add_column(title, overflow="fold")
    for row in shown(settings):
        table.add_row(*map(escape, row))
    console.print(table)
    return 0


def _openapi(args: argparse.Namespace) -> int:
    from api.apps import interface

    print(json.dumps(interface(args.listener), indent=2, ensure_ascii=False))
    return 0


def _asyncapi(_: argparse.Namespace) -> int:
    from realtime import asyncapi

    print(asyncapi.encoded(environment.read(servers=False)).decode())
    return 0


def _doctor(_: argparse.Namespace) -> int:
    checks = doctor.run()
    for what, well, finding in checks:
        console.print(f"{'[green]ok[/]  ' if well else '[red]bad[/] '} {escape(what)}: {escape(finding)}")
    bad = sum(not well for _, well, _ in checks)
    console.print("No problems found." if not bad else f"{bad} problems found.")
    return 1 if bad else 0


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    root = argparse.ArgumentParser(
        prog="sesi", description="Paid, time-boxed one-to-one chat: the service and its tools."
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], help_: str, parent: Any = commands) -> Any:
        made = parent.add_parser(name, help=help_, description=help_)
        made.set_defaults(run=run)
        return made

    add(
        "up",
        _up,
        "run the whole service on this machine; uses embedded PostgreSQL and Valkey unless URLs are set",
    )
    add("api", _api, "run an API process: the public and the internal listener")
    add("realtime", _realtime, "run a realtime process: WebSockets and pushes")
    add("jobs", _jobs, "run a jobs process: deadlines and sweeps")
    made = add("migrate", _migrate, "bring the database up to date; safe to repeat")
    made.add_argument("--check", action="store_true", help="change nothing; exit with 1 if there are migrations to run")
    seed = commands.add_parser("seed", help="add prices, or users for development").add_subparsers(
        required=True, metavar="WHAT"
    )
    tiers = add("tiers", _seed_tiers, "add missing price tiers and the first-session discount", seed)
    tiers.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help='JSON: {"tiers": [{"mode", "minutes", "price_idr", "tag"?}], "first_session_discount": {"enabled", '
        '"price_idr", "gimmick_price_idr", "duration_minutes", "modes"}?}; the default prices if omitted',
    )
    add("demo", _seed_demo, "add some mitras and customers for development; refused in production", seed)
    operator = commands.add_parser("operator", help="manage operators").add_subparsers(required=True, metavar="WHAT")
    create = add("create", _operator, "add an operator; the password is read from standard input", operator)
    create.add_argument("--email", required=True)
    create.add_argument("--display-name", required=True)
    create.add_argument("--role", required=True)
    create.add_argument("--password-stdin", action="store_true", required=True)
    reset = add("reset-totp", _reset_totp, "remove an operator's second factor and sign them out", operator)
    reset.add_argument("--email", required=True)
    pay = add(
        "pay",
        _pay,
        "call the webhook as the gateway would, for a payment request; refused in production",
        commands.add_parser("gateway", help="act as the payment gateway, for development").add_subparsers(
            required=True, metavar="WHAT"
        ),
    )
    pay.add_argument("payment_request_id", metavar="PAYMENT_REQUEST_ID")
    pay.add_argument("--status", default="PAID", choices=["PAID", "SETTLED", "EXPIRED", "PENDING"])
    pay.add_argument("--repeat", type=between(int, 1, 1000), default=1, metavar="N")
    pay.add_argument("--late", action="store_true", help="date the payment one day from now")
    import_call = add(
        "import",
        _webhooks_import,
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
    demo = add("demo", _demo, "play a whole paid session through the public interfaces, then audit the ledger")
    demo.add_argument(
        "--scale",
        type=between(float, 1.0, LONGEST_DEMO_SCALE),
        default=60.0,
        help="speed of service time, 1 to 120 (default 60)",
    )
    demo.add_argument("--running", action="store_true", help="use the running service instead of a temporary one")
    add_commands(add)
    audit = add("audit", _audit, "check the whole database for violations of the invariants")
    audit.add_argument("--rules", action="store_true", help="only list the rules and what each one checks")
    add("settings", _settings, "show every setting with its default and effective value; secrets are masked")
    listener = add("openapi", _openapi, "print the OpenAPI 3.1 document of a listener (JSON)")
    listener.add_argument("listener", choices=["public", "internal"], help="for apps and the gateway, or for operators")
    add("asyncapi", _asyncapi, "print the AsyncAPI 3.0 document of the WebSocket interface (JSON)")
    add("doctor", _doctor, "check database, Redis, migrations, ports, clock and providers, and say how to fix problems")
    return root


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    args = parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # live output through pipes
    try:
        return args.run(args)
    except ValidationFailed as error:
        for field in (error.details_in(DEFAULT) or {}).get("fields", []):
            print(f"sesi: {field['field']} {field['message']}", file=sys.stderr)
        return 1
    except asyncpg.UndefinedTableError:
        print("sesi: the database is not migrated: run `sesi migrate`", file=sys.stderr)
        return 1
    except Unavailable:
        print("sesi: the database or Redis does not answer: run `sesi doctor`", file=sys.stderr)
        return 1
    except (SettingsError, EmbeddedError, Failed, DomainError, RuntimeError) as error:
        print(f"sesi: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        print(f"sesi: {type(error).__name__}: {error}. Run `sesi doctor`.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
