"""The results behind docs/bench.md: a JSON file, in which later runs replace those of the same benchmark."""

import json
import pathlib
from typing import Any

import attrs

from tools.bench.figures import Outcome, as_json, outcomes_of

FOLDER = pathlib.Path("assets", "bench")  # next to the page
NAME = "results.json"


@attrs.define(kw_only=True)
class Results:
    """The newest outcome of each benchmark by its name, and the report of `sesi bench abuse`."""

    outcomes: dict[str, Outcome] = attrs.field(factory=dict)
    abuse: dict[str, Any] | None = None

    @classmethod
    def read(cls, page: pathlib.Path) -> "Results":
        """Read the results behind a page; return none if it has none yet. Raises ValueError or KeyError for another
        file."""
        path = folder_of(page) / NAME
        if not path.exists():
            return cls()
        data = json.loads(path.read_text())
        return cls(outcomes={outcome.name: outcome for outcome in outcomes_of(data)}, abuse=data.get("abuse"))

    def write(self, page: pathlib.Path) -> None:
        """Write the results behind a page."""
        data = as_json(list(self.outcomes.values()))
        if self.abuse is not None:
            data["abuse"] = self.abuse
        folder_of(page).mkdir(parents=True, exist_ok=True)
        (folder_of(page) / NAME).write_text(json.dumps(_rounded(data), indent=1) + "\n")


def folder_of(page: pathlib.Path) -> pathlib.Path:
    """Return the folder of a page's charts and results."""
    return page.parent / FOLDER


def _rounded(value: Any) -> Any:
    """Return JSON data whose numbers have five significant digits, which is more than a measurement has."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
