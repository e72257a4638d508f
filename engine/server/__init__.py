"""The HTTP front: one file per protocol, security, queue."""
