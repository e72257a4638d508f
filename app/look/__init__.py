"""Colours, icons and sizes of the app's windows."""
