"""`make fuzz`: generated requests against a throwaway service, as each kind of user; then a generated
client.

The run fails on any 5xx except 503, on statuses, content types and bodies that the documents don't describe, and if the
audit finds a violation afterwards.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from typing import Any

import attrs

from api import apps
from api.auth import Access
from api.route_signatures import PATH
from core.base.actor import UserType
from tests.stack import CALLBACK_TOKEN, Stack, World, new_id
from tools.driving.device import Device

ROOT = pathlib.Path(__file__).parents[2]
TOOLS = ROOT / ".venv" / "bin"
CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")
SECONDS = 70  # for each of the three runs; with start, client and stop about four minutes
# The runs are stateless and share one token each, and these calls would end it. Sign-out and revocation have
# their own tests.
ENDS_THE_TOKEN = re.compile(r"/auth/(logout|sessions/\{)")
# With the rate limit on, nearly all answers would be 429.
UNLIMITED = {"RATE_LIMIT_PER_MINUTE": "1000000", "RATE_LIMIT_BURST": "1000000"}


@attrs.frozen(kw_only=True)
class Run:
    """Requests of one user. `ids` maps names of parameters and fields to ids that exist."""

    name: str
    listener: str
    kind: UserType
    token: str
    ids: dict[str, list[str]]


async def people(stack: Stack) -> list[Run]:
    """Sign users in and create some data, so that requests find something."""
    world = World(stack)
    operator = await world.operator()
    await world.config("require_mitra_ping", False)
    for key in ("otp_max_per_phone_per_hour", "otp_max_per_ip_per_hour"):
        await world.config(key, 1_000_000)
    await world.config("otp_resend_cooldown_seconds", 1)
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    session_id = await world.session(customer, mitra)
    await customer.post(
        f"/api/shared/chat/sessions/{session_id}/messages", {"client_message_id": new_id(), "content": "Halo"}
    )
    history = await customer.get("/api/client/chat/session/active-with-unread")
    waiting = await world.customer("Eka")
    pending = await world.request(waiting)
    lost = await world.customer("Fitri")
    cancelled = await world.paid(lost)
    await lost.post("/api/client/chat/cancel", {"payment_request_id": cancelled["payment_request_id"]})
    failures = await operator.get("/internal/failed-pairings")
    spare = await world.mitra("Bima", online=False)  # operators' requests may deactivate the mitra whose id they use
    runs = [
        run_of("customer", "public", UserType.CUSTOMER, waiting, request_id=[pending["payment_request_id"]]),
        run_of("party", "public", UserType.CUSTOMER, customer, session_id=[session_id, history["session"]["id"]]),
        run_of("mitra", "public", UserType.MITRA, mitra, session_id=[session_id]),
        run_of(
            "operator", "internal", UserType.OPERATOR, operator,
            mitra_id=[spare.user["id"]], customer_id=[customer.user["id"], lost.user["id"]],
            failure_id=[item["id"] for item in failures["items"]],
            key=["mitra_stale_after_seconds", "early_end_customer_enabled", "support_handles", "price_tiers"],
        ),
    ]  # fmt: skip
    for client in world.clients:
        await client.close()
    return runs


def run_of(name: str, listener: str, kind: UserType, client: Device, **ids: list[str]) -> Run:
    """Return a run with a signed-in client's token."""
    assert client.access_token is not None
    if "request_id" in ids:
        ids["payment_request_id"] = ids["request_id"]
    return Run(name=name, listener=listener, kind=kind, token=client.access_token, ids=ids)


def own_operations(document: dict[str, Any], run: Run) -> None:
    """Keep the operations that this user may call; those open to everyone belong to the first run of a listener."""
    handlers = {
        (method.lower(), PATH.sub(r"{\1}", path)): handler
        for handler in (apps.PUBLIC if run.listener == "public" else apps.INTERNAL)
        for path in handler.paths
        for method in map(str, handler.http_methods)
    }
    for path, item in list(document["paths"].items()):
        for method in list(item):
            access: Access = handlers[method, path].opt["access"]
            mine = run.kind in access.kinds if access.kinds else run.name in ("customer", "operator")
            if not mine or ENDS_THE_TOKEN.search(path):
                del item[method]
        if not item:
            del document["paths"][path]


def seed(document: dict[str, Any], ids: dict[str, list[str]]) -> None:
    """Make existing ids likely in paths and bodies, because random ids find nothing."""
    document["components"]["parameters"]["X-Callback-Token"]["schema"] = {"enum": [CALLBACK_TOKEN, "wrong"]}
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation["parameters"]:
                if parameter.get("in") == "path" and parameter["name"] in ids:
                    parameter["schema"] = {"enum": [*ids[parameter["name"]], new_id(), "nonsense"]}
                    parameter["example"] = ids[parameter["name"]][0]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                body = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
                for name, field in body["properties"].items():
                    if name in ids and "anyOf" not in field:
                        body["properties"][name] = {"anyOf": [{"enum": ids[name]}, field]}


def fuzz(stack: Stack, run: Run, seconds: int) -> bool:
    """Send one user's requests; return True if all checks passed."""
    base = getattr(stack.addresses, run.listener)
    with urllib.request.urlopen(base + "/openapi.json", timeout=10) as answer:
        document = json.load(answer)
    own_operations(document, run)
    seed(document, run.ids)
    path = stack.root / f"{run.name}.json"
    path.write_text(json.dumps(document))
    print(f"\n== {run.name}: {len(document['paths'])} addresses of the {run.listener} listener", flush=True)
    done = subprocess.run(
        [
            TOOLS / "st", "--config-file", CONFIG, "run", path, "--url", base,
            "--header", f"Authorization: Bearer {run.token}", "--max-time", str(seconds),
        ],
        cwd=stack.root, env={**os.environ, "SESI_FUZZ_HOOKS": str(CONFIG.with_name("hooks.py"))}, check=False,
    )  # fmt: skip
    return done.returncode == 0


def client_proof(stack: Stack) -> bool:
    """Generate a client from the public document, compile it and sign in with it; return True if all of that worked."""
    print("\n== a generated client", flush=True)
    with tempfile.TemporaryDirectory(prefix="sesi-client-") as name:
        work = pathlib.Path(name)
        config = work / "config.yaml"
        config.write_text("package_name_override: sesi_client\n")
        env = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}", "PYTHONPATH": str(work)}
        python = TOOLS / "python"
        steps: list[list[Any]] = [
            [
                TOOLS / "openapi-python-client", "generate", "--url", stack.addresses.public + "/openapi.json",
                "--meta", "none", "--config", config, "--output-path", work / "sesi_client", "--fail-on-warning",
            ],
            [python, "-m", "compileall", "-q", work / "sesi_client"],
            [python, pathlib.Path(__file__).with_name("signs_in.py"), stack.addresses.public],
        ]  # fmt: skip
        return all(subprocess.run(step, cwd=work, env=env, check=False).returncode == 0 for step in steps)


def passed(name: str, work: Callable[[], bool]) -> list[str]:
    """Run one part; return its name in a list if it failed."""
    return [] if work() else [name]


def main() -> int:
    """Run the requested parts; return the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=SECONDS, help="seconds for each kind of user")
    asked = arguments.parse_args()
    stack = Stack(**UNLIMITED)
    failed: list[str] = []
    try:
        failed += passed("generated client", lambda: client_proof(stack))
        for run in asyncio.run(people(stack)):
            # The few routes of `party` are customer routes too: each of the two runs gets half the time.
            seconds = asked.seconds // 2 if run.kind is UserType.CUSTOMER else asked.seconds
            failed += passed(run.name, lambda run=run, seconds=seconds: fuzz(stack, run, seconds))
        books = stack.command("audit", check=False)
        print(books.stdout)
        failed += ["ledger audit"] if books.returncode else []
        failed += [f"undocumented answer: {line}" for line in stack.undocumented_answers()]
        failed += [
            f"unexpected error: {line[:2000]}" for line in stack.log("api").splitlines() if '"unexpected"' in line
        ]
    finally:
        stack.close()
    print("\n".join(f"FAILED: {what}" for what in failed) or "No failures.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
