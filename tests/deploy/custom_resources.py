"""Schemas of the custom resources that the chart uses, with the fields that we use: Kubernetes publishes none."""

from typing import Any


def resource(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a custom resource of the Prometheus operator."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": "monitoring.coreos.com/v1"},
            "kind": {"const": kind},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    }


def exactly(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has these properties, and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


SERVICE_MONITOR = resource(
    "ServiceMonitor",
    exactly(
        selector=exactly(matchLabels={"type": "object", "minProperties": 3}),
        endpoints={
            "type": "array",
            "minItems": 1,
            "items": exactly(
                port={"type": "string"},
                path={"const": "/metrics"},
                interval={"type": "string", "pattern": "^[0-9]+s$"},
                relabelings={
                    "type": "array",
                    "minItems": 1,
                    "items": exactly(
                        targetLabel={"const": "process"}, replacement={"enum": ["api", "realtime", "jobs"]}
                    ),
                },
            ),
        },
    ),
)
TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["expr"],
    "properties": {
        "record": {"type": "string"},
        "alert": {"type": "string"},
        "expr": {"type": "string"},
        "for": {"type": "string"},
        "labels": TEXTS,
        "annotations": exactly(summary=TEXT, description=TEXT, runbook_url={"pattern": "^https://"}),
    },
}
PROMETHEUS_RULE = resource(
    "PrometheusRule",
    exactly(
        groups={
            "type": "array",
            "minItems": 1,
            "items": exactly(name={"type": "string"}, rules={"type": "array", "minItems": 1, "items": RULE}),
        }
    ),
)
CUSTOM_RESOURCES = {"ServiceMonitor": SERVICE_MONITOR, "PrometheusRule": PROMETHEUS_RULE}
