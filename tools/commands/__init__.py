"""The commands of `sesi`, and the error of a failed one."""


class Failed(Exception):
    """The command failed. The message says why and what to do."""
