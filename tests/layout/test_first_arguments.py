"""The first argument of a function says what it does with the database (docs/architecture.md#domains).

`runtime` opens transactions, `tx` joins one, `reader` only reads. A function that opens transactions calls no such
function of another module: two commits in a row would look like one.
"""

import ast
import functools
import pathlib
from collections.abc import Iterator

import attrs

ROOT = pathlib.Path(__file__).parents[2]
# What follows a commit. It begins after the transaction of the caller, so it is not called in the sense of the rule.
AFTER_COMMITS = "core.app."
# Parts of several use cases that open a transaction, with the reason for the two commits.
PARTS = {
    "core.accounts.logins.check_code.verify": "counts a wrong code before it is refused",
    "core.accounts.logins.repeated_sign_ins.find": "looks for an earlier answer first",
    "core.accounts.operators.lockout.check_password": "counts a wrong password before it is refused",
    "core.desk.disclosure.one": "writes the audit row before personal data is shown",
    "core.desk.disclosure.several": "writes the audit row before personal data is shown",
    "core.desk.disclosure.with_phone": "counts the look-up before the number is looked up",
    "core.desk.failed_pairings.failed_pairings": "is a part of the search, with its own audit row",
    "core.desk.support.accounts_found": "counts the look-up before the number is looked up",
    "core.desk.support.customers": "is a part of the search, with its own audit row",
    "core.desk.support.payments": "is a part of the search, with its own audit row",
    "core.desk.support.sessions": "is a part of the search, with its own audit row",
    "core.desk.webhook_calls.webhook_calls": "is a part of the search, with its own audit row",
    "core.desk.people.shown_to": "writes the audit row before personal data is shown",
    "core.idempotency.run.transaction": "is the transaction of the use case, with its key",
    "core.payments.invoices.issue": "stores what the gateway has answered in between",
    "core.payments.poll.ask_due": "asks the gateway between the claim and the return of what was not asked",
    "core.payments.refunds.refund.request": "is one refund of several, each with its own commit",
    "core.payments.webhooks.process.process": "has the effect of a call that is stored already",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@attrs.frozen
class Module:
    """The top-level functions of a module, and what the names that it imports mean."""

    name: str
    functions: dict[str, Function]
    imports: dict[str, str]

    def mentioned(self, function: Function) -> Iterator[str]:
        """Yield the full names of the functions that a function names: it calls them, or lets others call them."""
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in self.functions:
                yield f"{self.name}.{node.id}"
            elif isinstance(node, ast.Name) and node.id in self.imports:
                yield self.imports[node.id]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.imports:
                yield f"{self.imports[node.value.id]}.{node.attr}"


def read(name: str, tree: ast.Module) -> Module:
    imports = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return Module(name, {node.name: node for node in tree.body if isinstance(node, Function)}, imports)


@functools.cache
def functions() -> dict[str, tuple[Module, Function]]:
    """Return the functions of core by their full names."""
    trees = {module_of(path): ast.parse(path.read_text()) for path in sorted((ROOT / "core").rglob("*.py"))}
    modules = [read(name, tree) for name, tree in trees.items()]
    return {f"{module.name}.{name}": (module, node) for module in modules for name, node in module.functions.items()}


def arguments(function: Function) -> list[str]:
    return [argument.arg for argument in function.args.args]


def opens(function: Function) -> bool:
    """Return whether a function contains `runtime.transaction()`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "transaction"
        and isinstance(node.value, ast.Name)
        and node.value.id == "runtime"
        for node in ast.walk(function)
    )


def with_transactions() -> set[str]:
    """Return the functions that open a transaction, or name a function that does."""
    found = {name for name, (_, function) in functions().items() if opens(function)}
    while True:
        more = {
            name
            for name, (module, function) in functions().items()
            if arguments(function)[:1] == ["runtime"] and not found.isdisjoint(module.mentioned(function))
        }
        if more <= found:
            return found
        found |= more


def test_function_that_opens_a_transaction_takes_the_runtime_first_and_no_transaction() -> None:
    found = {name: arguments(function) for name, (_, function) in functions().items() if opens(function)}
    assert len(found) > 100
    assert {name: names for name, names in found.items() if names[:1] != ["runtime"] or "tx" in names} == {}


def test_function_that_opens_transactions_calls_none_of_another_module_that_does() -> None:
    writing = with_transactions()
    found = {
        called
        for name in writing
        if not name.startswith(AFTER_COMMITS)
        for module, function in [functions()[name]]
        for called in module.mentioned(function)
        if called in writing and called.rpartition(".")[0] != module.name
    }
    assert found == set(PARTS)
