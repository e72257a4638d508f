"""The wizard: one window whose pages are the steps of an installation. `window.py` is the door."""
