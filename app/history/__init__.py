"""Conversations on disk: a tree of messages in SQLite, full-text search, export and import. No Qt."""
