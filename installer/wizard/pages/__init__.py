"""One page a file. A page shows and asks; what it means is decided in `installer/steps.py`."""
