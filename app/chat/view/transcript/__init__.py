"""The messages of a conversation: only what is seen is laid out."""
