"""Backups by pgBackRest, and the proof that they can be restored."""
