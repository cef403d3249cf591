"""Read the response bodies of providers."""

import json
from typing import Any

import aiohttp

MOST = 1 << 20  # bytes
PART = 1 << 16


async def read_json(answer: aiohttp.ClientResponse) -> Any:
    """Return the JSON of a response, None if the body is empty.

    Raises ValueError if it is not JSON, is nested too deeply or is longer than MOST bytes, and whatever aiohttp raises.
    """
    body = bytearray()
    async for part in answer.content.iter_chunked(PART):
        body += part
        if len(body) > MOST:
            raise ValueError("too long")
    try:
        return json.loads(body) if body.strip() else None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
