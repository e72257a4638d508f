"""A hub on this PC: a real HTTP server that speaks what the installer needs, with faults on demand."""
