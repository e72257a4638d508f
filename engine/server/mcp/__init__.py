"""MCP servers of the run config: their tools, for the chat window and for requests that ask."""
