"""Write the generated parts of docs/invariants.md: which rules of `sesi audit` check each invariant."""

import pathlib
import re

from core.desk.ledger.audit_rules import RULES, Rule

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "invariants.md"
MARKED = re.compile(r"(<!-- audit: (I\d+|other) -->\n).*?(<!-- end -->)", re.S)


def invariants_of(rule: Rule) -> list[str]:
    """Return the invariants that a rule checks, such as I3."""
    return [word for word in rule.proves.split() if re.fullmatch(r"I\d+", word)]


def sections_of(rule: Rule) -> list[str]:
    """Return the sections of the docs that a rule checks, such as docs/product.md#rounds."""
    return [word for word in rule.proves.split() if not re.fullmatch(r"I\d+", word)]


def block(name: str) -> str:
    """Return the part of one marker: the rules of an invariant, or those of none (`other`)."""
    if name == "other":
        rules = [rule for rule in RULES if not invariants_of(rule)]
        return "".join(f"- {rule.name} ({', '.join(map(_link, sections_of(rule)))})\n" for rule in rules)
    return "".join(f"- {rule.name}\n" for rule in RULES if name in invariants_of(rule)) or "- none\n"


def _link(section: str) -> str:
    target = section.removeprefix("docs/")
    return f"[{target}]({target})"


def marked(text: str) -> list[str]:
    """Return the names of the markers in a text."""
    return [found[2] for found in MARKED.finditer(text)]


def page(text: str) -> str:
    """Return the page with its generated parts replaced."""
    return MARKED.sub(lambda found: f"{found[1]}{block(found[2])}{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"{PAGE.name}: {len(RULES)} rules of the audit")
