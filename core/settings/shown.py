"""The settings in effect, for operators."""

from core.settings.settings import Settings, variables


def shown(s: Settings) -> list[tuple[str, str, str]]:
    """Return (variable, default, effective value) of each setting, secrets masked."""
    rows = []
    for field in variables():
        value = getattr(s, field.name)
        default = field.metadata["default"]
        if field.metadata["secret"]:
            value, default = ("****" if value else ""), ("****" if default else "")
        elif isinstance(value, tuple):
            value = ",".join(value)
        elif isinstance(value, bool):
            value = str(value).lower()
        elif value is None:
            value = ""
        rows.append((field.name.upper(), default or "", str(value)))
    return rows
