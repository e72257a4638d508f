"""Downloads models: resumable, verified, and never twice. `job.py` is the door."""
