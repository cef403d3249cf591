"""Commands that export and erase the data of people (docs/privacy.md)."""

import argparse
import pathlib
import sys

import msgspec

from core.app.reactions import react
from core.base.actor import UserType
from core.base.errors import DomainError, NotFound
from core.base.ids import parse_id
from core.erasures.rules import RequestedBy
from core.privacy import erase as erasure
from core.privacy import export
from core.privacy.erase import Requester, all_erasures
from core.runtime.container import Runtime
from tools.commands import progress
from tools.commands.running import Failed, console, with_runtime


def _id(text: str) -> str:
    found = parse_id(text)
    if found is None:
        raise Failed(f"{text!r} is not an id (a UUID)")
    return found


async def _requester(runtime: Runtime, email: str | None) -> Requester:
    """Return who runs the command: the operator with this e-mail, or the command line."""
    if email is None:
        return Requester(by=RequestedBy.COMMAND_LINE)
    try:
        return Requester(by=RequestedBy.OPERATOR, operator_id=await export.operator_named(runtime, email))
    except LookupError as error:
        raise Failed(f"no operator has the e-mail address {email}") from error


def export_customer(args: argparse.Namespace) -> int:
    """Write a customer's data to standard output as JSON."""
    return _export(UserType.CUSTOMER, args.id, args.operator)


def export_mitra(args: argparse.Namespace) -> int:
    """Write a mitra's data to standard output as JSON."""
    return _export(UserType.MITRA, args.id, args.operator)


def _export(user_type: UserType, user_id: str, email: str | None) -> int:
    known = _id(user_id)

    async def work(runtime: Runtime) -> int:
        asked = await _requester(runtime, email)
        await export.note_export(runtime, user_type, known, operator_id=asked.operator_id)
        async for part in export.parts(runtime, user_type, known):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
        return 0

    return with_runtime(work)


def erase_customer(args: argparse.Namespace) -> int:
    """Erase a customer's account."""
    return _erase("customer", args.id, args.operator)


def erase_mitra(args: argparse.Namespace) -> int:
    """Erase a deactivated mitra."""
    return _erase("mitra", args.id, args.operator)


def _erase(user_type: str, user_id: str, email: str | None) -> int:
    flow = {"customer": erasure.erase_customer, "mitra": erasure.erase_mitra}[user_type]
    known = _id(user_id)

    async def work(runtime: Runtime) -> int:
        made = await flow(runtime, known, await _requester(runtime, email))
        console.print(
            f"Erased {user_type} {made.user_id} and signed them out. "
            + ("Nothing is left." if made.completed_at else "The jobs process erases the rest within minutes."),
            markup=False,
        )
        return 0

    return with_runtime(work, react=react)


def list_erasures(_: argparse.Namespace) -> int:
    """Print all erasures, one JSON object a line."""

    async def work(runtime: Runtime) -> int:
        async for one in all_erasures(runtime):
            print(msgspec.json.encode(one).decode())
        return 0

    return with_runtime(work)


def reapply(args: argparse.Namespace) -> int:
    """Erase again the users of a file: erasures, or the log lines of the service. Return 1 if one could not be
    erased."""
    path = pathlib.Path(args.file)
    if not path.exists() or path.is_dir():  # a pipe will do
        raise Failed(f"{path}: file not found; `sesi erasures list` or the service's logs have the erasures")

    async def work(runtime: Runtime) -> int:
        erased = unknown = refused = 0
        users = _users(path)
        with progress.shown("reapply") as report:
            for number, (user_type, user_id) in enumerate(users):
                report(number / len(users), f"{len(users) - number} users left")
                flow = erasure.erase_mitra if user_type == "mitra" else erasure.erase_customer
                try:
                    await flow(runtime, user_id, Requester(by=RequestedBy.COMMAND_LINE))
                    erased += 1
                except NotFound:  # the backup is older than the user, or retention has removed them
                    unknown += 1
                except DomainError as error:
                    console.print(f"{user_type} {user_id}: {error}", markup=False)
                    refused += 1
        console.print(f"{erased} users are erased, {unknown} do not exist, {refused} could not be erased.")
        return 1 if refused else 0

    return with_runtime(work, react=react)


def _users(path: pathlib.Path) -> list[tuple[str, str]]:
    """Return (type, id) of the users in a file, each once. Lines without them, such as other log lines, are skipped."""
    found: dict[tuple[str, str], None] = {}
    with path.open("rb") as lines:
        for line in lines:
            try:
                fields = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.DecodeError:
                continue
            user_type, user_id = fields.get("user_type"), parse_id(fields.get("user_id"))
            is_erasure = "began_at" in fields or fields.get("event") == "erased"
            if is_erasure and user_type in ("customer", "mitra") and user_id is not None:
                found[str(user_type), user_id] = None
    return list(found)
