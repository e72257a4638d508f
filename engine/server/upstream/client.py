"""Talking to the upstream: its models, and requests whose answers come as a stream.

Whatever goes wrong there becomes one of our errors: the client asked us, and our key for the upstream
is no business of its. Nothing of a request is logged, and neither is the upstream's address beyond
its host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2

from engine.core.config import RunConfig
from engine.core.strict_json import BadJsonError, parse_json
from engine.server.active import ActiveRequest, unless_ended
from engine.server.answers import to_json
from engine.server.errors import ApiError
from engine.server.front import unknown_model
from engine.server.generation_request import GenerationRequest
from engine.server.steps import Step
from engine.server.upstream.address import UpstreamAddress, upstream_address
from engine.server.upstream.answer import upstream_answer
from engine.server.upstream.failures import upstream_error

logger = logging.getLogger(__name__)

CONNECT_S = 10.0
LIST_S = 5.0
# How long a list of models, or the failure to get one, is believed.
MODELS_AGE_S = 10.0
# Of an error's body, as much as a sentence needs.
MAX_ERROR_BYTES = 64 * 1024

# How these servers sign their list of models.
FLAG_OWNERS = ("vllm", "sglang")

JsonObject = dict[str, object]


class Upstream:
    """The configured upstream.

    Attributes:
        shown: scheme, host and port, for people.
        is_reachable: whether the last contact worked; None before the first.
    """

    def __init__(self, config: RunConfig, address: UpstreamAddress) -> None:
        for name in ("httpx2", "httpcore2"):  # their lines hold addresses with what is in them
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.shown = address.shown
        self.is_reachable: bool | None = None
        self._config = config
        self._base = address.base
        self._timeout_s = config.upstream_timeout_s
        headers = {"authorization": f"Bearer {address.key}"} if address.key else {}
        timeout = httpx2.Timeout(CONNECT_S, read=self._timeout_s, write=self._timeout_s, pool=None)
        self._http = httpx2.AsyncClient(
            headers=headers,
            timeout=timeout,
            limits=httpx2.Limits(max_connections=None),
            trust_env=False,  # the address is to be reached directly, not by a proxy for the web
        )
        self._models: list[JsonObject] = []
        self._models_at_s = -MODELS_AGE_S
        self._listing = asyncio.Lock()

    @classmethod
    def from_config(cls, config: RunConfig) -> Upstream | None:
        """The upstream of a run config, or None.

        Raises:
            ConfigError: the address is none.
        """
        address = upstream_address(config)
        return cls(config, address) if address is not None else None

    @property
    def continues_by_flags(self) -> bool:
        """Whether it goes on with an assistant's last message only when two flags say so."""
        return any(entry.get("owned_by") in FLAG_OWNERS for entry in self._models)

    async def close(self) -> None:
        """End all connections."""
        await self._http.aclose()

    async def models(self) -> list[JsonObject]:
        """What the upstream serves, as its own list says it; asked again after some seconds.

        Raises:
            ApiError: it cannot be reached, or its list is none.
        """
        async with self._listing:
            if time.monotonic() - self._models_at_s < MODELS_AGE_S and self._models:
                return self._models
            self._models = []
            try:
                response = await self._http.get(f"{self._base}/models", timeout=LIST_S)
            except httpx2.HTTPError as error:
                raise self._failed(error, silence_s=LIST_S) from error
            self.is_reachable = True
            if response.status_code != 200:
                raise upstream_error(response.status_code, response.content, response.headers)
            self._models = _entries(response.text)
            self._models_at_s = time.monotonic()
            return self._models

    async def model_for(self, name: str | None) -> str:
        """The upstream's model for a client's name: `model_id`, the same name, or its first one.

        Raises:
            ApiError: 404 under `strict_model`, 503 when the upstream does not say what it has.
        """
        if self._config.model_id is not None:
            with contextlib.suppress(ApiError):
                await self.models()  # for `continues_by_flags`; the name is known
            return self._config.model_id
        ids = [str(entry["id"]) for entry in await self.models()]
        if name is not None and name in ids:
            return name
        if name is not None and self._config.strict_model and name not in self._config.aliases:
            raise unknown_model(name)
        if not ids:
            raise ApiError(503, "model_loading", "The upstream serves no model (yet).")
        return ids[0]

    @asynccontextmanager
    async def post(
        self, path: str, body: JsonObject, active: ActiveRequest
    ) -> AsyncGenerator[httpx2.Response | None, None]:
        """Send a request; the headers of its answer have come, its body has not.

        Leaving ends it at the upstream too. None when the request's owner cancelled it meanwhile.

        Raises:
            ApiError: it cannot be reached, or answers with an error.
        """
        opening = asyncio.ensure_future(self._open(path, body))
        try:
            await unless_ended(active, asyncio.wait({opening}))
            yield None if active.is_cancelled else opening.result()
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().aclose()

    async def _open(self, path: str, body: JsonObject) -> httpx2.Response:
        content = to_json(body).encode("utf-8", "replace")
        request = self._http.build_request(
            "POST",
            f"{self._base}{path}",
            content=content,
            headers={"content-type": "application/json"},
        )
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise self._failed(error) from error
        self.is_reachable = True
        if response.status_code == 200:
            return response
        try:
            refused = await self._error_body(response)
        finally:
            await response.aclose()
        raise upstream_error(response.status_code, refused, response.headers)

    async def lines(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        """The lines of an answer as they come.

        Raises:
            ApiError: the connection broke, or nothing came for too long.
        """
        try:
            async for line in response.aiter_lines():
                yield line
        except httpx2.HTTPError as error:
            raise self._failed(error, has_begun=True) from error

    async def body(self, response: httpx2.Response) -> bytes:
        """The whole body of an answer.

        Raises:
            ApiError: the connection broke, or nothing came for too long.
        """
        try:
            return await response.aread()
        except httpx2.HTTPError as error:
            raise self._failed(error, has_begun=True) from error

    def answer(
        self, active: ActiveRequest, request: GenerationRequest, choice: int
    ) -> AsyncGenerator[Step, None]:
        """The steps of one answer to a request of any protocol."""
        return upstream_answer(self, active, request, choice)

    async def _error_body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for line in self.lines(response):
            body += line.encode("utf-8", "replace") + b"\n"
            if len(body) > MAX_ERROR_BYTES:
                break
        return bytes(body)

    def _failed(
        self, error: httpx2.HTTPError, *, has_begun: bool = False, silence_s: float | None = None
    ) -> ApiError:
        """503, with what happened in words."""
        if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
            reason = f"was silent for {silence_s or self._timeout_s:g} seconds"
        elif has_begun:
            reason = "broke the connection off"
        else:
            self.is_reachable = False
            reason = "cannot be reached"
        logger.warning("the upstream %s %s (%s)", self.shown, reason, type(error).__name__)
        return ApiError(503, "engine_failed", f"The upstream {self.shown} {reason}.")


def _entries(text: str) -> list[JsonObject]:
    try:
        value = parse_json(text)
    except BadJsonError:
        value = None
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, list):
        raise ApiError(503, "engine_failed", "The upstream's list of models could not be read.")
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
