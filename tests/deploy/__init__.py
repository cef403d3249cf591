"""The files of `deploy`: checked by tools for each kind, and the proxies in front of a service."""
