"""Routes of chats over REST, for the parties of a session. For other callers the session does not exist (NotFound)."""

from api.public.chat import blocks, extensions, messages, receipts, reports, sessions

ROUTES = [*sessions.ROUTES, *messages.ROUTES, *extensions.ROUTES, *receipts.ROUTES, *blocks.ROUTES, *reports.ROUTES]
