"""Starts the engine, watches it, starts it again after a crash, and ends it without leftovers."""
