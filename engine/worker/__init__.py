"""The worker process, its messages, and the scripted worker."""
