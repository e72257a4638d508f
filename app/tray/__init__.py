"""The sign beside the clock: the engine's state, a menu, notifications."""
