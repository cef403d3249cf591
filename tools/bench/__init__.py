"""Benchmarks of the service under load (`sesi bench`) and on a large database (`sesi grow`)."""
