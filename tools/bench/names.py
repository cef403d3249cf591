"""What can be measured, by name: the command line knows it without loading the rest."""

NAMES = (
    "chat-a", "chat-b", "chat-c", "chat-d", "session", "availability", "pairing-20", "pairing-1000", "deadlines", "idle", "soak",
    "quiet", "connects", "abuse",
)  # fmt: skip
ATTACKS = (
    "neighbour", "lists", "deep", "large", "sync", "ack", "auth", "ping", "silent", "header", "webhook", "refresh", "sign-ups",
)  # fmt: skip
