"""Many small cases in one test: pytest needs some milliseconds for each test, in each worker.

Use it where eight cases or more take some milliseconds each. All cases run, and each that fails is in the failure with
its name.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def noting(label: str, failed: list[Exception]) -> Iterator[None]:
    """Add what the block raises to `failed`, with the name of its case."""
    try:
        yield
    except Exception as error:
        error.add_note(f"the case: {label}")
        failed.append(error)


def check(failed: list[Exception], count: int) -> None:
    """Raise the failures of `count` cases, if there are any."""
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {count} cases failed", failed)


def for_each(
    argnames: str | Sequence[str], argvalues: Iterable[Any], ids: Sequence[str] | Callable[[Any], str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a test that runs once for each value. The arguments are those of `pytest.mark.parametrize`.

    The test raises an ExceptionGroup with the failures of all values.
    """
    names = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)
    cases: list[tuple[str, dict[str, Any]]] = []
    for place, value in enumerate(argvalues):
        found = getattr(value, "values", None)
        values = tuple(found) if isinstance(found, tuple) else value if len(names) > 1 else (value,)
        label = ids[place] if isinstance(ids, Sequence) else " ".join(map(ids or repr, values))
        cases.append((label, dict(zip(names, values, strict=True))))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def whole(**given: Any) -> None:
                failed: list[Exception] = []
                for label, case in cases:
                    with noting(label, failed):
                        await test(**given, **case)
                check(failed, len(cases))

        else:

            @functools.wraps(test)
            def whole(**given: Any) -> None:
                failed: list[Exception] = []
                for label, case in cases:
                    with noting(label, failed):
                        test(**given, **case)
                check(failed, len(cases))

        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in names]
        vars(whole)["__signature__"] = signature.replace(parameters=rest)
        return whole

    return decorate
