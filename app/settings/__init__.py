"""The settings of app and engine: pages, the run config's editor, models, keys, diagnostics."""
