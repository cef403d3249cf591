"""The schemas of query parameters, where their types do not say enough."""

from typing import Any

from core.base.field_types import MAX_INT
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import OperatorAction
from core.payments.gateway_calls import ProcessingResult

# Query parameter -> its schema, where the type does not say enough.
QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
    "cursor": {"type": "string", "description": "`next_cursor` of the previous page."},
    "from": {"type": "string", "format": "date-time", "description": "Inclusive, with a time zone."},
    "to": {"type": "string", "format": "date-time", "description": "Exclusive, with a time zone."},
    "after": {"type": "integer", "minimum": 0, "maximum": MAX_INT, "description": "Only messages after this `seq`."},
    "before": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_INT,
        "description": "The last messages before this `seq`.",
    },
    "cause_tag": {"type": "string", "enum": list(CauseTag)},
    "operator_action": {
        "type": "string",
        "enum": ["none", *OperatorAction],
        "description": "`none`: open failures.",
    },
    "processing_result": {"type": "string", "examples": list(ProcessingResult)},
    "q": {"type": "string", "description": "Part of a name, number, address or id."},
    "operator_id": {"type": "string", "format": "uuid"},
    "object_id": {
        "type": "string",
        "description": "An id, or the name of a setting. Entries whose lists contain the object are found too.",
    },
    "bodies": {"type": "boolean", "default": True, "description": "Whether to return the bodies of the calls."},
    "superseded": {"type": "boolean", "default": False},
}
