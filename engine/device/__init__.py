"""Graphics cards: memory, streams, launches and graphs, on a real card and on an emulated one."""
