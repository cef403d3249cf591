"""Write the control center's texts of cause tags, api/internal/static/kernel/words.causes.js.

They come from core/pairing_failures/causes.py.
"""

import json
import pathlib

from core.pairing_failures.causes import CauseTag

FILE = pathlib.Path(__file__).parents[1] / "api" / "internal" / "static" / "kernel" / "words.causes.js"
HEAD = """/** The texts of cause tags. Made by `make pages` from core/pairing_failures/causes.py; a test keeps them current. */

// Cause tag -> English label.
export const CAUSES = {
"""
MIDDLE = """};

// English text -> Indonesian text.
export const CAUSE_WORDS = {
"""
WIDTH = 120  # of a line, as in biome.json


def script() -> str:
    """Return the text of the file."""
    labels = [_entry(tag.value, tag.cause.label.en) for tag in CauseTag]
    texts = [text for tag in CauseTag for text in (tag.cause.label, tag.cause.explanation)]
    return "".join([HEAD, *labels, MIDDLE, *(_entry(json.dumps(text.en), text.id) for text in texts), "};\n"])


def _entry(key: str, text: str) -> str:
    """Return a property as Biome formats it. `key` is an identifier, or a text in quotation marks."""
    value = json.dumps(text, ensure_ascii=False)
    line = f"  {key}: {value},"
    return f"{line}\n" if len(line) <= WIDTH else f"  {key}:\n    {value},\n"


if __name__ == "__main__":
    FILE.write_text(script())
    print(f"{FILE.name}: {len(CauseTag)} cause tags")
