"""Sentences for what goes wrong in the network."""

from __future__ import annotations

import email.utils
import socket
import ssl
import time
from pathlib import Path

import httpx2
import pytest

from installer.download.job import DownloadJob
from installer.download.problems import problem_of, problem_of_status, retry_after
from installer.errors import NetworkError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.fake_hub.server import FakeHub

UNTRUSTED = Path(__file__).parents[2] / "fake_hub" / "certificates" / "untrusted.pem"


def caused(error, cause):
    error.__cause__ = cause
    return error


def certificate_error(code):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("error", "code", "may_pass"),
    [
        (httpx2.ConnectError("refused"), "no_network", True),
        (httpx2.ConnectTimeout("slow"), "no_network", True),
        (caused(httpx2.ConnectError("?"), socket.gaierror(-2, "unknown")), "no_network", True),
        (httpx2.ReadTimeout("silent"), "stalled", True),
        (httpx2.ReadError("reset"), "connection_lost", True),
        (httpx2.RemoteProtocolError("cut"), "connection_lost", True),
        (httpx2.ProxyError("407 Proxy Authentication Required"), "proxy_login", False),
        (httpx2.UnsupportedProtocol("ftp"), "hub_answer", False),
        (httpx2.InvalidURL("?"), "hub_answer", False),
        (caused(httpx2.ConnectError("?"), certificate_error(-2146762495)), "clock_wrong", False),
        (httpx2.ProxyError("503"), "proxy_unreachable", True),
        (caused(httpx2.ConnectError("?"), certificate_error(18)), "tls_intercepted", False),
        (caused(httpx2.ConnectError("?"), certificate_error(9)), "clock_wrong", False),
        (caused(httpx2.ConnectError("?"), certificate_error(10)), "clock_wrong", False),
    ],
)
def test_an_exception_becomes_a_sentence_with_a_way_out(error, code, may_pass):
    problem = problem_of(error, "hub.example")
    assert (problem.error.code, problem.may_pass) == (code, may_pass)
    assert "hub.example" in problem.error.message
    assert problem.error.message.endswith(".")


@pytest.mark.parametrize(
    ("status", "is_signed", "code", "may_pass"),
    [
        (401, False, "gated", False),
        (403, False, "gated", False),
        (403, True, "hub_answer", True),
        (404, False, "hub_file_missing", False),
        (404, True, "hub_file_missing", True),
        (407, True, "proxy_login", False),
        (408, True, "hub_down", True),
        (418, True, "hub_answer", False),
        (429, False, "hub_busy", True),
        (500, True, "hub_down", True),
        (503, False, "hub_down", True),
    ],
)
def test_a_status_becomes_a_sentence(status, is_signed, code, may_pass):
    problem = problem_of_status(
        httpx2.Response(status), host="cdn.example", what="m.gguf", is_signed=is_signed
    )
    assert (problem.error.code, problem.may_pass) == (code, may_pass)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7), (" 0.5 ", 0.5), ("-3", 0), ("soon", None), ("", None)],
)
def test_retry_after_is_a_number(text, seconds):
    assert retry_after(httpx2.Response(429, headers={"Retry-After": text})) == seconds


def test_retry_after_is_a_date():
    text = email.utils.formatdate(time.time() + 100, usegmt=True)
    seconds = retry_after(httpx2.Response(429, headers={"Retry-After": text}))
    assert seconds is not None
    assert 95 < seconds < 101
    past = email.utils.formatdate(time.time() - 100, usegmt=True)
    assert retry_after(httpx2.Response(429, headers={"Retry-After": past})) == 0


def test_a_certificate_that_this_pc_does_not_trust_is_named_at_once(hub, make_options):
    catalog = catalog_for(hub, {"m": {"m.gguf": BytesContent(b"x" * 100)}})
    with FakeHub(certificate=UNTRUSTED) as between:
        job = DownloadJob(catalog, "m", make_options(endpoint=between.endpoint))
        with pytest.raises(NetworkError) as caught:
            job.run()
    assert caught.value.code == "tls_intercepted"
    assert between.requests == []


@pytest.mark.parametrize("proxy", ["not a proxy", "ftp://proxy:1"])
def test_a_proxy_that_is_no_address_is_said_so(hub, make_options, proxy):
    catalog = catalog_for(hub, {"m": {"m.gguf": BytesContent(b"x" * 100)}})
    with pytest.raises(NetworkError) as caught:
        DownloadJob(catalog, "m", make_options(proxy=proxy)).run()
    assert caught.value.code == "proxy_unusable"


def test_the_token_stays_out_of_what_is_printed(make_options):
    options = make_options(token="hf_secret", proxy="http://me:secret@proxy:1")
    assert "secret" not in repr(options)


def test_the_endpoint_of_the_environment_is_used_with_the_token_stored_for_it(
    hub, make_options, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
    catalog = catalog_for(hub, {"m": {"m.gguf": BytesContent(b"x" * 100)}}, is_gated=True)
    DownloadJob(catalog, "m", make_options(endpoint=None)).run()
    assert hub.sent_bytes == 100


def test_a_mirror_does_not_get_the_token_that_is_stored_for_the_hub(hub, make_options, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_stored")
    catalog = catalog_for(hub, {"m": {"m.gguf": BytesContent(b"x" * 100)}})
    DownloadJob(catalog, "m", make_options()).run()
    assert {request.authorization for request in hub.requests} == {None}
