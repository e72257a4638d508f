"""What model and machine do now: samples, plots, and why it may be slow."""
