"""Many small cases in one test: pytest needs some milliseconds for each test, in each worker.

Use it where hundreds of cases take a millisecond each. All cases run, and each that fails is in the failure with its name.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


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
        def attempts(failed: list[Exception]) -> Iterator[dict[str, Any]]:
            for label, case in cases:
                before = len(failed)
                yield case
                for error in failed[before:]:
                    error.add_note(f"the case: {label}")
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed)

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def whole(**given: Any) -> None:
                failed: list[Exception] = []
                for case in attempts(failed):
                    try:
                        await test(**given, **case)
                    except Exception as error:
                        failed.append(error)

        else:

            @functools.wraps(test)
            def whole(**given: Any) -> None:
                failed: list[Exception] = []
                for case in attempts(failed):
                    try:
                        test(**given, **case)
                    except Exception as error:
                        failed.append(error)

        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in names]
        vars(whole)["__signature__"] = signature.replace(parameters=rest)
        return whole

    return decorate
