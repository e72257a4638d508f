"""Trains, exports and judges the bundled model (maintainers only; see README.md beside this file)."""
