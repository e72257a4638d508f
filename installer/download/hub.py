"""Asks the hub, or a mirror of it, what a repository holds and where a file can be fetched.

Listing, metadata, tokens and addresses are `huggingface_hub`'s; bytes are `transfer.py`'s. Locations
are signed and run out after about an hour, so they are asked for anew at every start.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx2

from installer.download.options import DownloadOptions
from installer.download.problems import (
    TransferProblemError,
    gated,
    problem_of,
    problem_of_status,
)
from installer.errors import HubError

_METADATA_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the hub lists it.

    Attributes:
        path: in the repository.
        bytes: its size.
        sha256: of its content; empty for a small file that is kept in git itself.
    """

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a repository holds at one commit."""

    repository: str
    commit: str
    files: Mapping[str, ListedFile]


@dataclass(frozen=True, slots=True)
class Location:
    """Where a file can be fetched now.

    Attributes:
        url: the address, mostly signed.
        headers: to send along.
        is_signed: whether the address is another host's than the hub's.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    is_signed: bool

    @property
    def host(self) -> str:
        """Who is asked."""
        return urlsplit(self.url).hostname or self.url


# What `huggingface_hub` talks through is one for the process: jobs that run at the same time share it.
_shared_lock = threading.Lock()
_shared_proxy: list[str | None] = []


def make_client(options: DownloadOptions) -> httpx2.Client:
    """An HTTP client: the system's proxies and certificates, and no wait for ever."""
    retry = options.retry
    timeout = httpx2.Timeout(retry.stall_s, connect=retry.connect_s)
    return httpx2.Client(timeout=timeout, follow_redirects=True, proxy=options.proxy)


class Hub:
    """One hub or mirror."""

    def __init__(self, options: DownloadOptions) -> None:
        """Prepare; nothing is asked yet.

        Raises:
            HubError: the endpoint is no address.
        """
        import huggingface_hub  # noqa: PLC0415  # takes a second; the wizard's window comes first

        with _shared_lock:
            if _shared_proxy != [options.proxy]:
                huggingface_hub.set_client_factory(lambda: make_client(options))
                _shared_proxy[:] = [options.proxy]
        self._hub = huggingface_hub
        self._endpoint = options.resolved_endpoint()
        self.host = _host_of(self._endpoint)
        # None: the token that is stored on this PC. A mirror that was typed in does not get that one.
        self._token: str | bool | None = options.token
        if options.token is None and options.endpoint is not None:
            self._token = False
        self._api = huggingface_hub.HfApi(endpoint=self._endpoint, token=self._token)

    def listing(self, repository: str, revision: str) -> Listing:
        """What a repository holds.

        Raises:
            TransferProblemError: the hub cannot be asked, or does not say.
        """
        try:
            info = self._api.model_info(
                repository, revision=revision, files_metadata=True, timeout=_METADATA_TIMEOUT_S
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._problem(error, repository, revision) from error
        except (ValueError, KeyError, TypeError) as error:  # an answer that is no listing
            raise self._nonsense(repository) from error
        files = {}
        for sibling in info.siblings or []:
            size = sibling.lfs.size if sibling.lfs is not None else sibling.size
            if size is None:
                continue
            sha256 = sibling.lfs.sha256 if sibling.lfs is not None else ""
            files[sibling.rfilename] = ListedFile(sibling.rfilename, size, sha256)
        if not info.sha or not files:
            raise self._nonsense(repository)
        return Listing(repository, info.sha, files)

    def location(self, repository: str, revision: str, path: str) -> Location:
        """Where a file can be fetched now.

        Raises:
            TransferProblemError: the hub cannot be asked, or does not give it.
        """
        url = self._hub.hf_hub_url(repository, path, revision=revision, endpoint=self._endpoint)
        try:
            metadata = self._hub.get_hf_file_metadata(
                url, token=self._token, timeout=_METADATA_TIMEOUT_S, endpoint=self._endpoint
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._problem(error, repository, revision, path) from error
        is_signed = urlsplit(metadata.location).netloc != urlsplit(self._endpoint).netloc
        token = self._hub.get_token() if self._token is None else self._token
        headers = {"Authorization": f"Bearer {token}"} if token and not is_signed else {}
        return Location(url=metadata.location, headers=headers, is_signed=is_signed)

    def _problem(
        self,
        error: httpx2.HTTPError | httpx2.InvalidURL,
        repository: str,
        revision: str,
        path: str = "",
    ) -> TransferProblemError:
        errors = self._hub.errors
        what = path or repository
        params: dict[str, str | int] = {
            "host": self.host,
            "repository": repository,
            "revision": revision,
            "file": path,
        }

        def final(code: str, sentence: str) -> TransferProblemError:
            return TransferProblemError(
                HubError(sentence, code=code, params=params), may_pass=False
            )

        if isinstance(error, errors.GatedRepoError):
            if self._token:
                return final(
                    "token_refused",
                    f"{self.host} does not give {repository} to the account of this token. Accept "
                    "the repository's terms on its page there, or enter another token.",
                )
            return TransferProblemError(gated(self.host, repository, params), may_pass=False)
        if isinstance(error, errors.RevisionNotFoundError):
            return final(
                "revision_missing",
                f"{self.host} no longer has the version {revision[:12]} of {repository} that this "
                "version of Stratum knows. Update Stratum, or choose another model.",
            )
        if isinstance(error, errors.RemoteEntryNotFoundError):
            return final(
                "hub_file_missing",
                f"{self.host} does not have {what} in {repository}. Update Stratum, or choose "
                "another model.",
            )
        if isinstance(error, errors.RepositoryNotFoundError):
            return final(
                "repository_missing",
                f"{self.host} has no repository {repository}, or not for this account. Choose "
                "another model or mirror.",
            )
        if isinstance(error, errors.HfHubHTTPError) and error.response is not None:
            return problem_of_status(error.response, host=self.host, what=what, is_signed=False)
        return problem_of(error, self.host)

    def _nonsense(self, repository: str) -> TransferProblemError:
        return TransferProblemError(
            HubError(
                f"{self.host} does not say which files {repository} has. It may be a log-in page of "
                "this network, or no mirror of the hub: open it in a browser, or choose another.",
                code="hub_answer",
                params={"host": self.host, "repository": repository},
            ),
            may_pass=False,
        )


def _host_of(endpoint: str) -> str:
    """The host of an address.

    Raises:
        HubError: it is none.
    """
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise HubError(
            f"{endpoint} is not the address of a mirror. Enter one that starts with https://, or "
            "leave it empty for the hub itself.",
            code="endpoint_unusable",
            params={"endpoint": endpoint},
        )
    return host
