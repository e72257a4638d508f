"""Conversations with the engine: controllers, streaming, attachments, presets. `view` shows them."""
