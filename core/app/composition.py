"""Open the runtime of a process, with all its domains."""

from core.app.reactions import in_transaction
from core.runtime.container import Reaction, Runtime, connect
from core.settings.settings import Settings


async def open_runtime(
    settings: Settings, *, pool_size: int = 16, commit_pool_size: int = 0, react: Reaction | None = None
) -> Runtime:
    """Connect to all backends, set the clock and read the configuration (see `connect`)."""
    return await connect(
        settings, pool_size=pool_size, commit_pool_size=commit_pool_size, port=in_transaction, react=react
    )
