"""Write the Grafana dashboards of `deploy/grafana`; their panels are in dashboard_panels.py."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

from tools.pages.dashboard_panels import DASHBOARDS, Dashboard, Panel

FOLDER = pathlib.Path(__file__).parents[2] / "deploy" / "grafana"
COLUMNS = 24  # of Grafana's grid
SIZES = {"stat": (4, 4), "timeseries": (8, 8)}  # kind -> (width, height)
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 39  # Grafana 11


def places(panels: tuple[Panel, ...]) -> Iterator[dict[str, int]]:
    """Yield the place of each panel: from left to right, a new line where the kind changes or the line is full."""
    x = y = height = 0
    for panel in panels:
        wide, high = SIZES[panel.kind]
        if x + wide > COLUMNS or (x and high != height):
            x, y = 0, y + height
        yield {"h": high, "w": wide, "x": x, "y": y}
        x, height = x + wide, high


def panel_json(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    """Return a panel in Grafana's model."""
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
        for index, (legend, expression) in enumerate(panel.queries.items())
    ]
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "textMode": "value"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": options,
        "targets": targets,
    }


def dashboard_json(dashboard: Dashboard) -> str:
    """Return the file of a dashboard, with one panel in a line."""
    head = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["sesi"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    placed = zip(dashboard.panels, places(dashboard.panels), strict=True)
    panels = [json.dumps(panel_json(number, panel, place)) for number, (panel, place) in enumerate(placed, start=1)]
    return "\n".join(["{", *lines, '  "panels": [', ",\n".join(f"    {panel}" for panel in panels), "  ]", "}", ""])


def files() -> dict[pathlib.Path, str]:
    """Return the text of each file."""
    return {FOLDER / f"{one.uid}.json": dashboard_json(one) for one in DASHBOARDS}


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
