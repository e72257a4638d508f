"""Who may talk to the server: Host check, origins, API keys, CORS (spec/api.md section 10).

Nothing on a loopback port may be reachable by a web page that the person did not allow. The Host
check stops DNS rebinding, the Origin rules stop foreign pages, keys are needed to listen beyond
this machine. Pure functions over headers; knows nothing of routes' work or of sockets.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from engine.core.config import RunConfig
from engine.core.errors import ConfigError
from engine.server.errors import ApiError

DESKTOP_SCHEMES = frozenset({"app", "chrome-extension", "moz-extension", "vscode-webview", "tauri"})
DEFAULT_PORTS = {"http": 80, "https": 443}
DOCKER_HOST = "host.docker.internal"
MIN_KEY_CHARS = 16
# What pages of other origins may read of an answer's headers, beside the usual ones.
EXPOSED_HEADERS = (
    *(
        "x-request-id",
        "x-seed",
        "x-sampling",
        "x-fit-max-tokens",
        "x-ignored-tools",
        "x-schema-ignored",
    ),
    *("openai-processing-ms", "retry-after", "x-should-retry"),
)


_HOST = re.compile(r"[A-Za-z0-9_.-]+")


class Rule(Enum):
    """Which origins may use a route."""

    USE = "use"  # generating and reading: G and R of the specification
    CONTROL = "control"  # C: loading, stopping, cancelling


@dataclass(frozen=True, slots=True)
class Access:
    """What a route asks of its caller."""

    needs_key: bool = True
    rule: Rule = Rule.USE


@dataclass(frozen=True, slots=True)
class Origin:
    """A parsed Origin header."""

    scheme: str
    host: str
    port: int | None

    @property
    def is_loopback(self) -> bool:
        """True for pages of this machine, whatever their port."""
        return self.scheme in DEFAULT_PORTS and self.host in ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers that decide; `hosts` holds every Host header that was sent."""

    hosts: tuple[str, ...]
    origin: str | None = None
    authorization: str | None = None
    x_api_key: str | None = None
    sec_fetch_site: str | None = None


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    """The rules that follow from the run config."""

    key_digests: tuple[bytes, ...] = ()
    host_names: frozenset[str] = frozenset()
    trusted: frozenset[Origin] = frozenset()
    cors: frozenset[Origin] = field(default_factory=frozenset)
    cors_any: bool = False

    @classmethod
    def from_config(cls, config: RunConfig) -> SecurityPolicy:
        """The policy, after checking that the config is safe to serve.

        Raises:
            ConfigError: a host that is none; listening beyond this machine, or open to every page, without a key; an
                origin that is none.
        """
        if not _HOST.fullmatch(config.host) and not _is_ip_literal(config.host.strip("[]")):
            raise ConfigError(
                f"The setting host is {config.host!r}; it must be an address or a name alone, such "
                "as 127.0.0.1. The port is a setting of its own.",
                params={"key": "host", "host": config.host},
            )
        if not is_loopback_address(config.host) and not config.api_keys:
            raise ConfigError(
                f"The setting host is {config.host}, which other machines can reach, and api_keys "
                "is empty. Set api_keys (16 characters or more), or host to 127.0.0.1.",
                params={"key": "api_keys", "host": config.host},
            )
        for name in config.allowed_hosts:
            if not _HOST.fullmatch(name) and not _is_ip_literal(name):
                raise ConfigError(
                    f"The setting allowed_hosts has {name!r}, which is no host name; it must look "
                    "like my-pc.lan, without http:// and port.",
                    params={"key": "allowed_hosts", "value": name},
                )
        cors_any = "*" in config.cors_origins
        if cors_any and not config.api_keys:
            raise ConfigError(
                "The setting cors_origins is *, so every web page could use the server, and "
                "api_keys is empty. Set api_keys, or name the origins.",
                params={"key": "cors_origins"},
            )
        names = {config.host.lower(), *(name.lower().rstrip(".") for name in config.allowed_hosts)}
        if not is_loopback_address(config.host):
            names |= {socket.gethostname().lower(), DOCKER_HOST}
        return cls(
            key_digests=tuple(_digest(key) for key in config.api_keys),
            host_names=frozenset(names),
            trusted=_origins("trusted_origins", config.trusted_origins),
            cors=_origins("cors_origins", (o for o in config.cors_origins if o != "*")),
            cors_any=cors_any,
        )

    def check_source(self, headers: RequestHeaders, access: Access) -> None:
        """Refuse a request by where it comes from.

        Raises:
            ApiError: 400 for a missing or doubled Host, 403 for a host or origin.
        """
        self._check_host(headers, access)
        if headers.origin is None:
            if headers.sec_fetch_site == "cross-site":
                raise _origin_refused()
        elif not self._allows(headers.origin, headers.hosts[0], access):
            raise _origin_refused()

    def check_key(self, headers: RequestHeaders, access: Access) -> None:
        """Refuse a request without a key where one is needed.

        Raises:
            ApiError: 401.
        """
        if not (access.needs_key and self.key_digests):
            return
        scheme, _, token = (headers.authorization or "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        matches = False
        for given in (bearer, headers.x_api_key or ""):
            digest = _digest(given)
            for known in self.key_digests:  # no early end: the time must not tell which matched
                matches |= hmac.compare_digest(digest, known)
        if not matches:
            raise ApiError(
                401,
                "invalid_api_key",
                "The API key is missing or wrong. Send it as Authorization: Bearer KEY.",
                headers={"www-authenticate": "Bearer"},
            )

    def cors_headers(self, headers: RequestHeaders, access: Access) -> dict[str, str]:
        """The CORS headers for a page that passed `check_source`: it may read what it may ask.

        Control routes are opened to no page of another origin.
        """
        if headers.origin is None or access.rule is Rule.CONTROL:
            return {}
        return {
            "access-control-allow-origin": headers.origin,
            "access-control-expose-headers": ", ".join(EXPOSED_HEADERS),
            "vary": "Origin",
        }

    def _check_host(self, headers: RequestHeaders, access: Access) -> None:
        if len(headers.hosts) != 1 or not headers.hosts[0]:
            reason = "no Host header" if not headers.hosts else "a Host header that is unusable"
            raise ApiError(400, "invalid_value", f"The request has {reason}.")
        if self.key_digests and access.needs_key:
            return  # the key protects these routes; a rebound page does not have it
        name = host_name(headers.hosts[0])
        is_local = name == "localhost" or name.endswith(".localhost") or _is_ip_literal(name)
        if not is_local and name not in self.host_names:
            raise ApiError(
                403,
                "host_not_allowed",
                "This host name is not allowed here. Use 127.0.0.1 or localhost, or add the name "
                "to the setting allowed_hosts.",
            )

    def _allows(self, text: str, host: str, access: Access) -> bool:
        """Whether pages of an origin may use a route."""
        origin = parse_origin(text)
        if origin is not None:
            if origin == _own_origin(host, origin.scheme) or origin in self.trusted:
                return True
            if access.rule is Rule.USE and (
                origin.is_loopback or origin.scheme in DESKTOP_SCHEMES or origin in self.cors
            ):
                return True
        return self.cors_any and access.rule is Rule.USE


def is_loopback_address(host: str) -> bool:
    """True when only programs on this machine can connect to the address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name in a Host header: no port, no brackets, no trailing dot, lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal():
        host = name
    return host.rstrip(".")


def parse_origin(text: str | None) -> Origin | None:
    """The origin in a header or setting; None for `null` and what is no origin."""
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    # vscode-webview://id and chrome-extension://id have no dots or ports: the id is the host.
    behind = parts.path or parts.query or parts.fragment
    if not parts.scheme or host is None or behind or "@" in parts.netloc:
        return None
    return Origin(parts.scheme, host.rstrip("."), port or DEFAULT_PORTS.get(parts.scheme))


def _own_origin(host: str, scheme: str) -> Origin | None:
    return parse_origin(f"{scheme}://{host.strip()}") if scheme in DEFAULT_PORTS else None


def _origins(key: str, texts: Iterable[str]) -> frozenset[Origin]:
    found: set[Origin] = set()
    for text in texts:
        origin = parse_origin(text.rstrip("/"))
        if origin is None:
            raise ConfigError(
                f"The setting {key} has {text!r}, which is no origin; it must look like "
                "https://name.example or http://localhost:3000.",
                params={"key": key, "value": text},
            )
        found.add(origin)
    return frozenset(found)


def _origin_refused() -> ApiError:
    return ApiError(
        403,
        "origin_not_allowed",
        "Web pages of this origin may not use the server. Add the origin to the setting "
        "cors_origins or trusted_origins if you trust it.",
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _is_ip_literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
