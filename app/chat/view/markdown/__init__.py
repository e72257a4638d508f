"""Markdown as blocks that can be laid out one at a time. Knows nothing of widgets."""
