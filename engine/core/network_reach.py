"""Whether the hub, or a mirror of it, can be reached, and if not, why not. Asks with HEAD only.

Proxies and certificates are the system's. The answer is for the person to know before a download; it
forbids nothing, because the download itself may know better ways (a token, a proxy's password).
"""

from __future__ import annotations

import enum
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.parse import urlsplit

HUB = "https://huggingface.co"
MIRROR = "https://hf-mirror.com"
_USER_AGENT = "stratum-installer"


class ReachState(enum.StrEnum):
    """What became of asking."""

    REACHED = "reached"
    NO_NETWORK = "no_network"  # the name could not be found
    REFUSED = "refused"  # no connection
    TIMED_OUT = "timed_out"
    PROXY_LOGIN = "proxy_login"  # the proxy wants a name and password
    TLS_INTERCEPTED = "tls_intercepted"  # a certificate that this PC does not trust
    CLOCK_WRONG = "clock_wrong"  # a certificate that seems expired or not yet valid
    BAD_ADDRESS = "bad_address"
    NOT_ASKED = "not_asked"  # no time was left


@dataclass(frozen=True, slots=True)
class Reach:
    """The answer for one address.

    Attributes:
        url: what was asked.
        state: what became of it.
        took_s: until the answer.
        clock_off_s: how far this PC's clock is ahead of the server's; None without an answer.
    """

    url: str
    state: ReachState
    took_s: float = 0.0
    clock_off_s: float | None = None

    @property
    def host(self) -> str:
        """The server's name."""
        return urlsplit(self.url).hostname or self.url

    @property
    def is_reached(self) -> bool:
        """Whether a server answered."""
        return self.state is ReachState.REACHED


def endpoints_to_ask(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The endpoint that is set (`HF_ENDPOINT`) or the hub, and a mirror."""
    chosen = environment.get("HF_ENDPOINT", "").strip().rstrip("/") or HUB
    return (chosen, MIRROR) if chosen != MIRROR else (MIRROR, HUB)


def ask(url: str, timeout_s: float) -> Reach:
    """Ask one address for nothing but an answer."""
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        return Reach(url, ReachState.BAD_ADDRESS)
    began = time.monotonic()
    request = urllib.request.Request(  # noqa: S310  # the scheme is checked above
        url, method="HEAD", headers={"User-Agent": _USER_AGENT}
    )
    state = ReachState.REACHED
    headers: Message | None = None
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
        error.close()
        if error.code == 407:
            state = ReachState.PROXY_LOGIN
    except (OSError, HTTPException, ValueError) as error:
        state = state_of(error)
    took_s = time.monotonic() - began
    return Reach(url, state, took_s, _clock_off(headers))


def state_of(error: BaseException) -> ReachState:
    """What an error of a connection means."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        # 9: not yet valid, 10: expired (OpenSSL's numbers)
        is_clock = reason.verify_code in {9, 10}
        return ReachState.CLOCK_WRONG if is_clock else ReachState.TLS_INTERCEPTED
    if isinstance(reason, socket.gaierror):
        return ReachState.NO_NETWORK
    if isinstance(reason, TimeoutError):
        return ReachState.TIMED_OUT
    if "407" in str(reason):  # a tunnel that the proxy refuses: "Tunnel connection failed: 407 ..."
        return ReachState.PROXY_LOGIN
    return ReachState.REFUSED


def any_reached(answers: Sequence[Reach]) -> bool:
    """Whether one of them can be reached."""
    return any(answer.is_reached for answer in answers)


def _clock_off(headers: Message | None) -> float | None:
    text = headers.get("Date", "") if headers is not None else ""
    try:
        there = parsedate_to_datetime(text)
        return (datetime.now(UTC) - there).total_seconds()
    except (TypeError, ValueError, IndexError):
        return None
