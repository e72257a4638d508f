"""Another OpenAI-compatible server behind the same front, instead of a model on this machine."""
