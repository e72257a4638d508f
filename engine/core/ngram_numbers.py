"""What everything that reads the n-gram table agrees about; a model needs no run config for it."""

from __future__ import annotations

TABLE_NAME = "per_layer_token_embd.weight"
CACHE_ROWS = 1_000_000  # as RunConfig.ngram_cache_rows
PAGE_BYTES = 4096
