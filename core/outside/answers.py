"""What a provider answers, however it is written."""

import json
from typing import Any

import aiohttp

MOST = 1 << 20  # bytes
PART = 1 << 16


async def read_json(answer: aiohttp.ClientResponse) -> Any:
    """Return an answer's JSON; None for an empty one.

    Raises ValueError for what is none, is nested too deeply or is longer than MOST, and what aiohttp raises.
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
