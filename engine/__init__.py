"""The Stratum engine: it runs Qwen3.8-Flash-Next models and serves them over HTTP."""

__version__ = "0.1.0"
