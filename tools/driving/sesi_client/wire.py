"""What goes over the wire: JSON objects by the names of the service's documents."""

from typing import Any

Json = dict[str, Any]
Frame = dict[str, Any]
