"""Create the functions that the service calls."""

from core.storage.sql_migration import sql_migration

ID = "0003"
forwards = sql_migration(
    __file__,
    ID,
    "0003_silence.sql",
    "0003_free_mitras.sql",
    "0003_chat_commit.sql",
    "0003_chat_fill.sql",
)
