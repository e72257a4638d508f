"""From what went wrong in the network to a sentence, and whether trying again may help."""

from __future__ import annotations

import email.utils
import socket
import ssl
import time
from collections.abc import Iterator

import httpx2

from installer.errors import DownloadError, HubError, NetworkError

# Not yet valid and expired (OpenSSL's x509_vfy.h), and both as Windows numbers them (winerror.h,
# CERT_E_EXPIRED): the clock of this PC is the usual reason.
_NOT_VALID_NOW = frozenset({9, 10, 0x800B0101, 0x800B0101 - (1 << 32)})
_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524})


class TransferProblemError(Exception):
    """A request failed.

    Attributes:
        error: what to tell the person if it stays so.
        may_pass: whether trying again may help.
        at_once: whether the next try needs no wait (an old signature).
        retry_after_s: how long the server asked to wait.
    """

    def __init__(
        self,
        error: DownloadError,
        *,
        may_pass: bool,
        at_once: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.may_pass = may_pass
        self.at_once = at_once
        self.retry_after_s = retry_after_s


def problem_of(error: httpx2.HTTPError | httpx2.InvalidURL, host: str) -> TransferProblemError:
    """The problem that an exception of the HTTP client stands for."""
    params: dict[str, str | int] = {"host": host}

    def network(code: str, sentence: str, *, may_pass: bool = True) -> TransferProblemError:
        return TransferProblemError(
            NetworkError(sentence, code=code, params=params), may_pass=may_pass
        )

    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return TransferProblemError(
            HubError(
                f"{host} names an address for the file that is none. Choose another mirror.",
                code="hub_answer",
                params=params,
            ),
            may_pass=False,
        )
    if isinstance(error, httpx2.ProxyError):
        if "407" in str(error):
            return network(
                "proxy_login",
                f"The proxy of this network wants a name and a password before it lets {host} "
                "through. Enter them as http://NAME:PASSWORD@PROXY:PORT.",
                may_pass=False,
            )
        return network(
            "proxy_unreachable",
            f"The proxy of this network does not let {host} through ({error}). Check the proxy in "
            "the system's settings.",
        )
    certificate = next(
        (cause for cause in _causes(error) if isinstance(cause, ssl.SSLCertVerificationError)), None
    )
    if certificate is not None:
        if certificate.verify_code in _NOT_VALID_NOW:
            return network(
                "clock_wrong",
                f"The certificate of {host} is not valid at the time that this PC shows. Set the "
                "PC's date and time, then try again.",
                may_pass=False,
            )
        return network(
            "tls_intercepted",
            f"The connection to {host} is not secure: something between (a virus scanner or the "
            "company's network) answers with a certificate that this PC does not trust. Let it "
            "through there, or install that certificate.",
            may_pass=False,
        )
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
        return network(
            "stalled", f"{host} has sent nothing for a while. The download goes on when it does."
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        if any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
            sentence = f"The name {host} cannot be found. Check the connection to the internet"
        else:
            sentence = f"{host} cannot be reached. Check the connection to the internet"
        return network("no_network", f"{sentence}, or choose a mirror.")
    return network(
        "connection_lost", f"The connection to {host} broke off. The download resumes where it was."
    )


def problem_of_status(
    response: httpx2.Response, *, host: str, what: str, is_signed: bool
) -> TransferProblemError:
    """The problem that an answer other than the wanted one stands for.

    Args:
        response: it.
        host: who was asked.
        what: name of the file.
        is_signed: whether the location was signed and may have run out.
    """
    status = response.status_code
    params: dict[str, str | int] = {"host": host, "file": what, "status": status}
    if status == 429:
        return TransferProblemError(
            NetworkError(
                f"{host} asks to wait, since too much was asked of it from this address. Try again "
                "in some minutes.",
                code="hub_busy",
                params=params,
            ),
            may_pass=True,
            retry_after_s=retry_after(response),
        )
    if status in _TRANSIENT_STATUS:
        return TransferProblemError(
            NetworkError(
                f"{host} has a problem of its own (status {status}). Try again later, or choose a "
                "mirror.",
                code="hub_down",
                params=params,
            ),
            may_pass=True,
            retry_after_s=retry_after(response),
        )
    if status == 407:
        return TransferProblemError(
            NetworkError(
                f"The proxy of this network wants a name and a password before it lets {host} "
                "through. Enter them as http://NAME:PASSWORD@PROXY:PORT.",
                code="proxy_login",
                params=params,
            ),
            may_pass=False,
        )
    if status in (401, 403) and is_signed:
        return TransferProblemError(
            HubError(
                f"{host} refuses to send {what} (status {status}). Try again later, or choose a "
                "mirror.",
                code="hub_answer",
                params=params,
            ),
            may_pass=True,
            at_once=True,
        )
    if status in (401, 403):
        return TransferProblemError(gated(host, what, params), may_pass=False)
    if status in (404, 410):
        return TransferProblemError(
            HubError(
                f"{host} does not have {what} (any more). Update Stratum, or choose another model.",
                code="hub_file_missing",
                params=params,
            ),
            may_pass=is_signed,
        )
    return TransferProblemError(
        HubError(
            f"{host} gave an answer for {what} that makes no sense here (status {status}). Choose "
            "another mirror.",
            code="hub_answer",
            params=params,
        ),
        may_pass=False,
    )


def gated(host: str, what: str, params: dict[str, str | int]) -> HubError:
    """The error for a repository that asks for an account."""
    return HubError(
        f"{host} gives {what} only to people with an account who accepted its terms. Accept them on "
        "its page there, make an access token, and enter it here.",
        code="gated",
        params=params,
    )


def retry_after(response: httpx2.Response) -> float | None:
    """Seconds that the server asks to wait: `Retry-After` as a number or as a date."""
    text = response.headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(10):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__
