"""The names of the benchmarks, in a module that the command line can load quickly."""

NAMES = (
    "chat-a", "chat-b", "chat-c", "chat-d", "quiet-1000", "quiet-100", "curve", "session", "availability", "pairing-20",
    "pairing-1000", "pairing-10000", "fan-out", "deadlines", "idle", "soak", "connects",
)  # fmt: skip
