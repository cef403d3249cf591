"""The checks of `sesi doctor`."""
