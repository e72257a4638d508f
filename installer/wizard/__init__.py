"""The wizard: one window whose pages are the steps of an installation. `window.py` is the door."""

from engine.core.lasting_none import keep_none_alive

keep_none_alive()
