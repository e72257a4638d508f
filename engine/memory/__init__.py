"""Memory tiers: KV pages now, expert cache and n-gram table reader later."""
