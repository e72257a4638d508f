"""One module per command of the engine command line."""
