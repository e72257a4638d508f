"""A sequence's state: commit, rollback, snapshot and restore."""
