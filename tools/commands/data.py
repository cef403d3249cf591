"""Commands that change or check the database: migrations, seeds, operators, payments, webhook calls, audit."""

import argparse
import asyncio
import datetime as dt
import json
import pathlib
import sys
from collections import Counter

from rich.table import Table

from core.accounts.operators import totp
from core.app.reactions import open_runtime, react
from core.base.clock import as_text
from core.base.ids import parse_id
from core.desk import setup
from core.desk.audits.accept import accept
from core.desk.ledger.audit import audit
from core.desk.ledger.audit_rules import RULES
from core.desk.setup import TierSeed
from core.payments import show as show_payments
from core.payments.pricing.rules import Promotion
from core.payments.webhooks import replay as webhook_replay
from core.privacy import export
from core.runtime.container import Runtime
from tools.commands import environment, migrate, progress
from tools.commands.running import Failed, console, with_runtime
from tools.driving import gateway

HOUR = dt.timedelta(hours=1)


def run_migrations(args: argparse.Namespace) -> int:
    """Run the pending migrations, make partitions ahead, and add missing configuration rows and cause tags.

    With `--check`, only return 1 if there are migrations to run.
    """
    settings = environment.read()
    url = settings.database_url
    if args.check:
        missing = asyncio.run(migrate.pending(url))
        console.print(
            "The database is up to date." if not missing else f"{len(missing)} migrations to run: use `sesi migrate`."
        )
        return 1 if missing else 0
    if not args.direct:
        migrate.require_direct(settings)
    with progress.shown("migrate") as report:
        ran = asyncio.run(migrate.migrate(url, report))

    async def seed() -> int:
        runtime = await open_runtime(settings, pool_size=2)
        try:
            await migrate.make_partitions(runtime)
            return await setup.seed_defaults(runtime)
        finally:
            await runtime.close()

    added = asyncio.run(seed())
    console.print(f"{ran} migrations ran, {added} configuration rows were added. The database is up to date.")
    return 0


def seed_tiers(args: argparse.Namespace) -> int:
    """Add missing price tiers and the first-session discount."""
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

    return with_runtime(work)


def seed_demo(_: argparse.Namespace) -> int:
    """Add some users for development."""
    environment.not_in_production(environment.read())

    async def work(runtime: Runtime) -> int:
        return _added(await setup.seed_demo(runtime))

    return with_runtime(work)


def _added(lines: list[str]) -> int:
    for line in lines:
        console.print(f"added  {line}")
    console.print(f"{len(lines)} added; existing rows are unchanged.")
    return 0


def operator(args: argparse.Namespace) -> int:
    """Add an operator."""
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

    return with_runtime(work)


def reset_totp(args: argparse.Namespace) -> int:
    """Remove an operator's second factor."""

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

    return with_runtime(work)


def unlock(args: argparse.Namespace) -> int:
    """End an operator's lockout."""

    async def work(runtime: Runtime) -> int:
        try:
            known = await setup.unlock_operator(runtime, email=args.email)
        except LookupError as error:
            raise Failed(f"no operator has the e-mail address {args.email}, and it is not locked") from error
        said = (
            "Operator {} can sign in again."
            if known
            else "{} is no longer locked. No operator has this e-mail address."
        )
        console.print(said.format(args.email), markup=False)
        return 0

    return with_runtime(work)


def _print_enrolment_code(code: str | None) -> None:
    if code is not None:
        console.print(
            f"The role requires a second factor. One-time code to set it up, valid for {totp.ENROLMENT_CODE_FOR // HOUR} h: {code}",
            markup=False,
            soft_wrap=True,
        )


def pay(args: argparse.Namespace) -> int:
    """Call the webhook as the gateway would; return 1 if a call was refused."""
    environment.not_in_production(environment.read())

    async def work(runtime: Runtime) -> int:
        payment_id = parse_id(args.payment_request_id)
        if payment_id is None:
            raise Failed(f"{args.payment_request_id!r} is not a payment request id (a UUID)")
        view = await show_payments.for_development_page(runtime, payment_id)
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

    return with_runtime(work)


async def _import_calls(runtime: Runtime, path: pathlib.Path, *, trust_unsealed: bool) -> int:
    """Process every line with the handler of the gateway's calls. Repeating it changes nothing.

    Lines without a valid seal of the service count as calls without a valid token, unless `trust_unsealed`.
    Return the exit code: 1 if a line could not be read or was refused. Raises OSError if the file can't be read.
    """
    results: Counter[str] = Counter()
    bad = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                answer = await webhook_replay.import_call(runtime, line, trust_unsealed=trust_unsealed)
            except ValueError as error:
                console.print(f"line {number}: {error}")
                bad += 1
                continue
            results["already in the log" if answer is None else answer.processing_result] += 1
            if answer is not None and answer.http_status >= 400:
                console.print(f"line {number}: {answer.http_status} {answer.processing_result}")
                bad += 1
    for result, count in sorted(results.items()):
        console.print(f"{count:6} {result}")
    console.print(
        "All lines were imported."
        if not bad
        else f"{bad} lines were not imported: check `sesi audit` and the webhook log."
    )
    return 1 if bad else 0


def webhooks_import(args: argparse.Namespace) -> int:
    """Process the webhook calls in a fallback file."""
    path = pathlib.Path(args.file)
    if not path.exists() or path.is_dir():  # a pipe will do
        raise Failed(f"{path}: file not found; the service writes fallback files to WEBHOOK_FALLBACK_DIR")

    async def work(runtime: Runtime) -> int:
        return await _import_calls(runtime, path, trust_unsealed=args.trust_unsealed)

    return with_runtime(work, react=react)


def accept_violations(args: argparse.Namespace) -> int:
    """Accept violations, with a reason that stays."""
    if bool(args.ids) == args.all:
        raise Failed("name the ids of the rows, or use --all for every row that breaks the rule")

    async def work(runtime: Runtime) -> int:
        try:
            operator_id = await export.operator_named(runtime, args.operator)
        except LookupError as error:
            raise Failed(f"no operator has the e-mail address {args.operator}") from error
        ids = None if args.all else args.ids
        count = await accept(runtime, rule_name=args.rule, object_ids=ids, reason=args.reason, operator_id=operator_id)
        console.print(f"{count} violations accepted.")
        return 0

    return with_runtime(work)


def audit_ledger(args: argparse.Namespace) -> int:
    """Check the whole database, or list the rules; return 1 if there is a violation."""
    if args.rules:
        table = Table("rule", "proves")
        for rule in RULES:
            table.add_row(rule.name, rule.proves)
        console.print(table)
        return 0

    async def work(runtime: Runtime) -> int:
        await runtime.reports.check()
        with progress.shown("audit") as report:
            books = await audit(runtime, report=report)
        for violation in books.violations:
            console.print(violation.rule, style="red", end="")
            console.print(f": {violation.id}: {violation.detail}", markup=False)
        for one in books.accepted:
            why = f"accepted by {one.operator} at {as_text(one.accepted_at)}: {one.reason}"
            console.print(f"{one.rule}: {one.id}: {one.detail} ({why})", markup=False)
        for rule, number in Counter(violation.rule for violation in books.violations).most_common():
            console.print(f"{number:6} {rule}", markup=False)
        count = len(books.violations)
        console.print(f"{books.sessions} sessions, {books.payments} payments, {count} violations")
        return 1 if count else 0

    return with_runtime(work)
