"""Where the upstream is, and its key: checked at start, shown without what is secret."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from engine.core.config import RunConfig
from engine.core.errors import ConfigError

KEY_VARIABLE = "STRATUM_UPSTREAM_KEY"
DEFAULT_PATH = "/v1"
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class UpstreamAddress:
    """The upstream's address.

    Attributes:
        base: the URL that paths such as `/models` are put after.
        shown: scheme, host and port alone: what a status or a log may say.
        key: sent as a bearer token.
    """

    base: str = field(repr=False)
    shown: str
    key: str | None = field(default=None, repr=False)


def upstream_address(config: RunConfig) -> UpstreamAddress | None:
    """The address in a run config; None when no upstream is configured.

    Raises:
        ConfigError: it is no http or https URL, or this server's own. The value is not quoted: it may
            hold a password.
    """
    if config.upstream is None:
        return None
    try:
        parts = urlsplit(config.upstream.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unusable() from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise _unusable()
    own_hosts = {config.host.strip("[]").lower(), *LOOPBACK_HOSTS}
    if (port or DEFAULT_PORTS[parts.scheme]) == config.port and host in own_hosts:
        raise ConfigError(
            f"The setting upstream is this server's own address (port {config.port}), so each request would "
            "go round in a circle. Give the other server's, or choose another port here.",
            params={"key": "upstream"},
        )
    path = parts.path.rstrip("/") or DEFAULT_PATH
    name = f"[{host}]" if ":" in host else host
    where = f"{name}:{port}" if port is not None else name
    key = config.upstream_key or os.environ.get(KEY_VARIABLE, "").strip() or None
    # Only one of the two can be sent, and the key is what was meant.
    netloc = parts.netloc if key is None else where
    return UpstreamAddress(
        base=urlunsplit((parts.scheme, netloc, path, "", "")),
        shown=f"{parts.scheme}://{where}",
        key=key,
    )


def _unusable() -> ConfigError:
    return ConfigError(
        "The setting upstream is no address of a server; it must look like http://host:8000/v1.",
        params={"key": "upstream"},
    )
