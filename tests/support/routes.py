"""All routes of the server with what they ask of a caller: the table that the security tests walk.

Written from the interface's description and not from the code, so that a route that slips in without a
key, or with the wrong class of origins, fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listed:
    """One route.

    Attributes:
        template: as the router has it.
        path: an example that can be asked.
        open: answers without a key.
        control: only for programs, the own page and trusted origins.
    """

    methods: tuple[str, ...]
    template: str
    path: str
    open: bool = False
    control: bool = False

    @property
    def is_anthropic(self) -> bool:
        """True when its errors have Anthropic's shape."""
        return self.path.startswith("/v1/messages")


def _route(methods: str, template: str, path: str = "", **flags: bool) -> Listed:
    return Listed(tuple(methods.split()), template, path or template, **flags)


ROUTES = (
    _route("POST", "/v1/chat/completions"),
    _route("POST", "/v1/completions"),
    _route("POST", "/v1/responses"),
    _route("POST", "/v1/responses/input_tokens"),
    _route("GET DELETE", "/v1/responses/{response_id}", "/v1/responses/resp_none"),
    _route("POST", "/v1/responses/{response_id}/cancel", "/v1/responses/resp_none/cancel"),
    _route("GET", "/v1/responses/{response_id}/input_items", "/v1/responses/resp_none/input_items"),
    _route("POST", "/v1/messages"),
    _route("POST", "/v1/messages/count_tokens"),
    _route("GET", "/v1/models"),
    _route("GET", "/models"),
    _route("GET", "/v1/models/{model_id:path}", "/v1/models/none/such"),
    _route("GET", "/health", open=True),
    _route("GET", "/v1/health", open=True),
    _route("GET", "/", open=True),
    _route("GET", "/props"),
    _route("GET", "/slots"),
    _route("GET", "/status"),
    _route("GET", "/v1/status"),
    _route("GET", "/metrics"),
    _route("POST", "/tokenize"),
    _route("POST", "/detokenize"),
    _route("POST", "/apply-template"),
    _route("GET", "/mcp"),
    _route("POST", "/load", control=True),
    _route("POST", "/unload", control=True),
    _route("POST", "/v1/load", control=True),
    _route("POST", "/v1/unload", control=True),
    _route(
        "POST", "/v1/requests/{request_id}/cancel", "/v1/requests/req_none/cancel", control=True
    ),
    _route(
        "POST",
        "/v1/requests/{request_id}/stop_thinking",
        "/v1/requests/req_none/stop_thinking",
        control=True,
    ),
    _route(
        "POST",
        "/v1/requests/{request_id}/mcp_consent",
        "/v1/requests/req_none/mcp_consent",
        control=True,
    ),
    _route("POST", "/shutdown", control=True),
)

# Nothing answers here, and a caller without the key does not even learn that.
UNLISTED = (
    "/docs",
    "/redoc",
    "/openapi.json",
    "/favicon.ico",
    "/v1",
    "/v1/",
    "/page",
    "/page/index.html",
    "/static/x",
    "/.env",
    "/etc/passwd",
    "/..%2f..%2fetc/passwd",
    "/health/../status",
    "/%2e%2e/status",
    "//status",
    "/HEALTH",
    "/health/x",
    "/v1/requests",
    "/v1/requests/x",
    "/v1/embeddings",
    "/v1/files",
    "/completion",
    "/infill",
    "/exec",
)
