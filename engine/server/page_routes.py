"""The chat page at `/`, for a phone or any other browser: one static file with a strict policy.

The file is open to everybody, as it holds nothing; what it does goes through the API's routes and needs
the key there. Its Content-Security-Policy is made from the file itself: the hashes of its one script and
its one style, so that nothing else runs, even if a text of a model could get markup into the page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

PAGE_FILE = Path(__file__).parent / "page" / "index.html"
PAGE_TYPE = "text/html; charset=utf-8"
NO_PAGE = "Stratum is running. The API is at /v1.\n"

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page_routes() -> list[Route]:
    """The route; Starlette answers HEAD with it too."""

    async def page(_request: Request) -> Response:
        html = read_page()
        if html is None:  # a copy without the page still says that the server runs
            return PlainTextResponse(NO_PAGE)
        return Response(html, headers=page_headers())

    return [Route("/", page, methods=["GET"])]


@cache
def read_page() -> bytes | None:
    """The page's bytes, read once; None where the file is missing."""
    try:
        # The hashes are over what a browser parses, and it reads every line end as \n.
        return PAGE_FILE.read_bytes().replace(b"\r\n", b"\n")
    except FileNotFoundError:
        return None


@cache
def page_headers() -> dict[str, str]:
    """The headers that go with the page."""
    return {
        "content-type": PAGE_TYPE,
        "content-security-policy": content_policy((read_page() or b"").decode("utf-8")),
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


def content_policy(html: str) -> str:
    """What the page may do: run its own script, use its own style, talk to this server.

    `require-trusted-types-for` also forbids the script itself to turn a text into markup.
    """
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        hashes[kind].append(f"'sha256-{base64.b64encode(digest).decode('ascii')}'")
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(hashes["script"]) or "'none'",
        "style-src": " ".join(hashes["style"]) or "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
