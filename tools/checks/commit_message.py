"""Check the form of a commit message (CONTRIBUTING.md). `python -m tools.checks.commit_message FILE` is the commit-msg
hook."""

import pathlib
import re
import sys

LONGEST = 72
FORM = re.compile(r"(?P<area>[a-z][a-z0-9_./ -]*(?:, [a-z][a-z0-9_./ -]*)*): (?P<phrase>\S.*)")
# Written by git itself.
MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
# Words that look like another form of a verb, and are imperatives.
IMPERATIVES = frozenset(
    {"alias", "bias", "bring", "canvas", "embed", "exceed", "feed", "focus", "need", "ping", "proceed", "seed", "shed"}
)


def problems(message: str) -> list[str]:
    """Return what is wrong with a message, one line each; nothing for a good one."""
    lines = [line for line in message.partition("\n# ------------------------ >8 ")[0].splitlines() if line[:1] != "#"]
    subject = lines[0] if lines else ""
    if subject.startswith(MADE_BY_GIT):
        return []
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject must have at most {LONGEST} characters, and has {len(subject)}")
    if subject.endswith("."):
        found.append("the subject must not end with a full stop")
    form = FORM.fullmatch(subject)
    if form is None:
        found.append(
            "the subject must be `area: imperative phrase`, such as `realtime: retry a failed heartbeat write`"
        )
    elif wrong := _not_imperative(form["phrase"]):
        found.append(f"the phrase must begin with an imperative in lower case, such as `add` or `fix`, not `{wrong}`")
    if len(lines) > 1 and lines[1]:
        found.append("an empty line must follow the subject")
    return found


def _not_imperative(phrase: str) -> str | None:
    """Return the first word if it can't be an imperative: `added`, `adding`, `adds` or `Add`."""
    word = phrase.split(maxsplit=1)[0].rstrip(",")
    if word in IMPERATIVES:
        return None
    third_person = word.endswith("s") and not word.endswith("ss")
    return word if word[:1].isupper() or word.endswith(("ed", "ing")) or third_person else None


def main() -> int:
    """Check the file that git names; return the exit code."""
    found = problems(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stderr.write("".join(f"commit message: {line}.\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
