"""The parts of docs/invariants.md: which rules of `sesi audit` check each invariant."""

import re

from core.desk.ledger.audit_rules import RULES, Rule


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


def parts() -> dict[str, str]:
    """Return the parts of the page by their markers."""
    names = {name for rule in RULES for name in invariants_of(rule)}
    return {f"audit: {name}": block(name) for name in (*sorted(names), "other")}
