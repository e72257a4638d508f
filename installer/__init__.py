"""Finds out what a PC can run, downloads it, prepares it, and removes it again."""
