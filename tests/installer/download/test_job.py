"""Whole downloads from the fake hub, and each fault that it can have."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions, RetryPolicy
from installer.download.part_file import part_path, state_path
from installer.download.plan import Action
from installer.download.progress import DownloadProgress, Phase
from installer.errors import (
    BusyError,
    CancelledError,
    ChecksumError,
    HubError,
    NetworkError,
    StoppedError,
)
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent, GeneratedContent
from tests.fake_hub.faults import Fault, Kind, Where
from tests.fake_hub.server import FakeHub

MakeOptions = Callable[..., DownloadOptions]
SIZE = 1_000_003
MODEL = "m"
NAME = "model.gguf"
DATA = GeneratedContent(SIZE).read(0, SIZE)


@pytest.fixture
def content() -> BytesContent:
    return BytesContent(DATA)


@pytest.fixture
def job(hub: FakeHub, make_options: MakeOptions, content: BytesContent) -> DownloadJob:
    """The download of a model of one file whose checksum the catalogue knows."""
    return DownloadJob(catalog_for(hub, {MODEL: {NAME: content}}), MODEL, make_options())


def target(job: DownloadJob) -> Path:
    return job.options.models_dir / MODEL / NAME


def is_right(path: Path) -> bool:
    return path.read_bytes() == DATA


def ranges(hub: FakeHub) -> list[str | None]:
    return [request.range for request in hub.byte_requests]


def test_a_download_ends_in_a_verified_file_and_a_manifest(hub, job):
    seen: list[DownloadProgress] = []
    model = job.run(seen.append)
    assert is_right(model.model_path)
    assert model.files[0].sha256 == hashlib.sha256(DATA).hexdigest()
    assert seen[-1].phase is Phase.DONE
    assert (seen[-1].bytes_done, seen[-1].bytes_total) == (SIZE, SIZE)
    assert hub.sent_bytes == SIZE
    assert not part_path(target(job)).exists()
    assert not state_path(target(job)).exists()


def test_a_second_start_fetches_nothing(hub, job, content, make_options):
    catalog = catalog_for(hub, {MODEL: {NAME: content}})
    DownloadJob(catalog, MODEL, make_options()).run()
    before = len(hub.requests)
    again = DownloadJob(catalog, MODEL, make_options())
    assert [file.action for file in again.plan().files] == [Action.PRESENT]
    again.run()
    assert len(hub.requests) == before  # not even a listing: it works without a network


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Kind.CUT, after_bytes=400_000),
        Fault(Kind.CUT),
        Fault(Kind.STALL, after_bytes=400_000),
        Fault(Kind.END_EARLY, after_bytes=400_000),
        Fault(Kind.STATUS, status=503),
        Fault(Kind.STATUS, status=500, where=Where.LOCATION),
        Fault(Kind.STATUS, status=502, where=Where.LISTING),
        Fault(Kind.STATUS, status=429, retry_after="0"),
        Fault(Kind.STATUS, status=404),
        Fault(Kind.STATUS, status=403),
        Fault(Kind.NO_LENGTH),
        Fault(Kind.CUT, where=Where.LISTING),
        Fault(Kind.CUT, where=Where.LOCATION),
    ],
    ids=lambda fault: f"{fault.where.value}-{fault.kind.value}-{fault.status}-{fault.after_bytes}",
)
def test_a_fault_that_passes_is_survived(hub, job, fault):
    if fault.kind is Kind.STALL:
        retry = dataclasses.replace(job.options.retry, stall_s=3)
        job.options = dataclasses.replace(job.options, retry=retry)
    hub.faults.add(fault)
    job.run()
    assert is_right(target(job))
    assert hub.sent_bytes <= SIZE + 1  # nothing twice


def test_a_cut_line_resumes_at_the_last_byte(hub, job):
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    job.run()
    assert ranges(hub) == [None, f"bytes=400000-{SIZE - 1}"]


def test_a_line_that_breaks_again_and_again_but_moves_on_is_not_given_up(hub, job):
    hub.faults.add(Fault(Kind.CUT, times=8, after_bytes=100_000))
    job.run()
    assert is_right(target(job))
    assert len(ranges(hub)) == 9  # three tries without progress would have ended it


def test_a_wrong_byte_is_found_and_the_file_is_fetched_once_more(hub, job):
    hub.faults.add(Fault(Kind.WRONG_BYTE, after_bytes=500_000))
    job.run()
    assert is_right(target(job))
    assert ranges(hub) == [None, None]


def test_a_file_that_is_wrong_twice_is_not_used(hub, job):
    hub.faults.add(Fault(Kind.WRONG_BYTE, times=-1, after_bytes=500_000))
    with pytest.raises(ChecksumError) as caught:
        job.run()
    assert NAME in str(caught.value)
    assert not target(job).exists()
    assert len(ranges(hub)) == 2


def test_an_ignored_range_begins_the_file_again_and_never_mixes_it(hub, job):
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    hub.faults.add(Fault(Kind.IGNORE_RANGE))
    job.run()
    assert is_right(target(job))
    assert [request.status for request in hub.byte_requests] == [200, 200]


@pytest.mark.parametrize("kind", [Kind.WRONG_RANGE, Kind.OTHER_TOTAL])
def test_a_range_that_was_not_asked_for_is_refused(hub, job, kind):
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    hub.faults.add(Fault(kind, times=-1))
    with pytest.raises(HubError) as caught:
        job.run()
    assert caught.value.code in ("mirror_ignores_range", "hub_file_changed")
    assert part_path(target(job)).stat().st_size == 400_000  # nothing foreign was added


def test_more_bytes_than_promised_are_not_taken(hub, job):
    hub.faults.add(Fault(Kind.TOO_LONG, times=-1))
    job.run()
    assert is_right(target(job))


def test_an_old_signature_is_asked_for_anew(hub, job):
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    hub.faults.add(Fault(Kind.STATUS, status=403))
    job.run()
    assert is_right(target(job))
    locations = [r for r in hub.requests if r.origin == "hub" and "/resolve/" in r.path]
    assert len(locations) == 3  # one for each request of bytes


def test_a_file_that_changed_on_the_hub_is_refused_before_its_first_byte(hub, job):
    other = BytesContent(DATA[:-1] + b"x")
    commit = job._catalog.families[MODEL].revision  # the same commit, rewritten
    hub.add(f"maker/{MODEL}-GGUF", {NAME: other}, commit=commit)
    with pytest.raises(HubError) as caught:
        job.run()
    assert caught.value.code == "hub_file_changed"
    assert hub.byte_requests == []


def test_a_file_that_changed_between_two_starts_begins_anew(hub, make_options):
    first = catalog_for(hub, {MODEL: {NAME: BytesContent(b"o" * SIZE)}}, is_known=False)
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    hub.faults.add(Fault(Kind.STATUS, status=503, times=3))
    with pytest.raises(NetworkError):
        DownloadJob(first, MODEL, make_options()).run()
    second = catalog_for(hub, {MODEL: {NAME: BytesContent(DATA)}}, is_known=False)
    job = DownloadJob(second, MODEL, make_options())
    job.run()
    assert is_right(target(job))
    assert ranges(hub)[-1] is None


def test_the_hub_that_stays_down_is_named_and_the_part_is_kept(hub, job):
    hub.faults.add(Fault(Kind.CUT, after_bytes=400_000))
    hub.faults.add(Fault(Kind.STATUS, status=503, times=-1))
    with pytest.raises(NetworkError) as caught:
        job.run()
    assert caught.value.code == "hub_down"
    hub.faults.clear()
    job.run()
    assert is_right(target(job))
    assert ranges(hub)[-1] == f"bytes=400000-{SIZE - 1}"


def test_a_wait_that_the_server_asks_for_is_kept_and_shown(hub, job):
    hub.faults.add(Fault(Kind.STATUS, status=429, retry_after="1"))
    seen: list[DownloadProgress] = []
    job.run(seen.append)
    waits = [p for p in seen if p.phase is Phase.WAITING]
    assert waits[0].reason == "hub_busy"
    assert 0.5 < waits[0].wait_s <= 1.0
    first, second = hub.byte_requests
    assert second.at - first.at >= 0.95


def test_a_login_page_is_recognised(hub, job):
    hub.faults.add(Fault(Kind.LOGIN_PAGE, times=-1))
    with pytest.raises(HubError) as caught:
        job.run()
    assert caught.value.code == "login_page"


def test_a_login_page_instead_of_the_listing_is_recognised(hub, make_options, content):
    catalog = catalog_for(hub, {MODEL: {NAME: content}}, is_known=False)
    hub.faults.add(Fault(Kind.LOGIN_PAGE, where=Where.LISTING, times=-1))
    with pytest.raises(HubError, match="log-in page"):
        DownloadJob(catalog, MODEL, make_options()).run()


def test_sizes_and_checksums_that_the_catalogue_lacks_come_from_the_hub(hub, make_options, content):
    catalog = catalog_for(hub, {MODEL: {NAME: content}}, is_known=False)
    job = DownloadJob(catalog, MODEL, make_options())
    (file,) = job.plan().files
    assert (file.bytes, file.sha256) == (content.size, content.sha256)
    assert hub.byte_requests == []
    job.run()
    assert is_right(target(job))


def test_a_gated_repository_asks_for_a_token_once(hub, make_options, content):
    catalog = catalog_for(hub, {MODEL: {NAME: content}}, is_gated=True)
    with pytest.raises(HubError) as caught:
        DownloadJob(catalog, MODEL, make_options()).run()
    assert caught.value.code == "gated"
    with pytest.raises(HubError) as caught:
        DownloadJob(catalog, MODEL, make_options(token="hf_other")).run()
    assert caught.value.code == "token_refused"
    job = DownloadJob(catalog, MODEL, make_options(token="hf_good"))
    job.run()
    assert is_right(target(job))
    assert all(request.authorization is None for request in hub.byte_requests)


def test_a_revision_that_has_gone_is_replaced_only_by_the_same_files(hub, make_options, content):
    known = catalog_for(hub, {MODEL: {NAME: content}})
    hub.add(f"maker/{MODEL}-GGUF", {NAME: content})  # a new commit, the old one has gone
    job = DownloadJob(known, MODEL, make_options())
    assert [notice.code for notice in job.plan().notices] == ["revision_replaced"]
    job.run()
    assert is_right(target(job))


def test_a_revision_that_has_gone_with_its_files_is_an_error(hub, make_options, content):
    known = catalog_for(hub, {MODEL: {NAME: content}})
    hub.add(f"maker/{MODEL}-GGUF", {NAME: BytesContent(b"new")})
    with pytest.raises(HubError) as caught:
        DownloadJob(known, MODEL, make_options()).run()
    assert caught.value.code == "revision_missing"


def test_a_repository_that_has_gone_is_an_error(hub, make_options, content):
    catalog = catalog_for(hub, {MODEL: {NAME: content}})
    hub._repositories.clear()  # vanished
    with pytest.raises(HubError) as caught:
        DownloadJob(catalog, MODEL, make_options()).run()
    assert caught.value.code == "repository_missing"


def test_no_network_is_said_so(make_options, job):
    offline = DownloadJob(job._catalog, MODEL, make_options(endpoint="http://127.0.0.1:9"))
    with pytest.raises(NetworkError) as caught:
        offline.run()
    assert caught.value.code == "no_network"


@pytest.mark.parametrize("endpoint", ["hf-mirror", "ftp://mirror", "http://[bad"])
def test_an_address_that_is_no_mirror_is_said_so(make_options, job, endpoint):
    with pytest.raises(HubError) as caught:
        DownloadJob(job._catalog, MODEL, make_options(endpoint=endpoint)).run()
    assert caught.value.code == "endpoint_unusable"


def test_a_proxy_that_wants_a_password_is_said_so(hub, make_options, job):
    hub.faults.add(Fault(Kind.STATUS, status=407, where=Where.LISTING, times=-1))
    with pytest.raises(NetworkError) as caught:
        job.run()
    assert caught.value.code == "proxy_login"


def test_all_requests_go_through_the_proxy(hub, make_options, content):
    catalog = catalog_for(hub, {MODEL: {NAME: content}})
    options = make_options(endpoint="http://hub.example", proxy=hub.endpoint)
    job = DownloadJob(catalog, MODEL, options)
    # The fake hub serves as the proxy: it understands absolute addresses by their path.
    job.plan()
    assert any(request.path.startswith("http://hub.example/") for request in hub.requests)


def test_a_pause_closes_the_line_and_going_on_resumes(hub, job):
    hub.bytes_per_s = 2_000_000
    paused = threading.Event()

    def progress(report: DownloadProgress) -> None:
        if report.bytes_done > 200_000 and not paused.is_set():
            job.pause()
        if report.phase is Phase.PAUSED:
            paused.set()

    thread = threading.Thread(target=job.run, args=(progress,))
    thread.start()
    assert paused.wait(60)
    have = part_path(target(job)).stat().st_size
    time.sleep(0.2)
    assert part_path(target(job)).stat().st_size == have
    job.resume()
    thread.join(60)
    assert is_right(target(job))
    assert ranges(hub) == [None, f"bytes={have}-{SIZE - 1}"]


def test_a_silent_server_does_not_delay_the_person_before_its_answer(hub, make_options, job):
    hub.faults.add(Fault(Kind.STALL, times=-1))
    timer = threading.Timer(0.3, job.stop)
    timer.start()
    slow = RetryPolicy(stall_s=600)
    job.options = dataclasses.replace(job.options, retry=slow)
    with pytest.raises(StoppedError):
        job.run()
    timer.join()


def test_downloads_into_two_folders_run_side_by_side(hub, make_options, job, tmp_path):
    hub.bytes_per_s = 2_000_000
    other = DownloadJob(job._catalog, MODEL, make_options(data_dir=tmp_path / "other"))
    thread = threading.Thread(target=other.run)
    thread.start()
    job.run()
    thread.join(60)
    assert is_right(target(job))
    assert is_right(target(other))
    assert hub.sent_bytes == 2 * SIZE


@pytest.mark.parametrize("ask", ["stop", "cancel", "pause"])
def test_a_stalled_line_does_not_delay_the_person(hub, make_options, job, ask):
    options = make_options(retry=RetryPolicy(stall_s=600))
    slow = DownloadJob(job._catalog, MODEL, options)
    hub.faults.add(Fault(Kind.STALL, after_bytes=400_000, times=-1))
    errors: list[Exception] = []

    def run() -> None:
        try:
            slow.run()
        except StoppedError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    part = part_path(target(job))
    while not (part.exists() and part.stat().st_size == 400_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    getattr(slow, ask)()
    if ask == "pause":
        time.sleep(0.1)
        slow.stop()
    thread.join(90)  # the line itself would have been given up after 600 s
    (error,) = errors
    assert isinstance(error, CancelledError) == (ask == "cancel")
    assert part.exists() == (ask != "cancel")


def test_a_cancelled_download_leaves_nothing(hub, job):
    hub.bytes_per_s = 2_000_000

    def progress(report: DownloadProgress) -> None:
        if report.bytes_done > 200_000:
            job.cancel()

    with pytest.raises(CancelledError):
        job.run(progress)
    assert not target(job).parent.exists()


def test_a_rate_limit_holds(hub, make_options, job):
    limited = DownloadJob(job._catalog, MODEL, make_options(max_bytes_per_s=1_000_000))
    started = time.monotonic()
    limited.run()
    assert time.monotonic() - started > 0.8


def test_a_second_download_into_the_same_folder_is_refused(hub, make_options, job):
    hub.bytes_per_s = 500_000
    began = threading.Event()
    other = DownloadJob(job._catalog, MODEL, make_options())

    def run() -> None:
        with pytest.raises(StoppedError):
            other.run(lambda _report: began.set())

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(60)
    with pytest.raises(BusyError):
        job.run()
    other.stop()
    thread.join(60)
    hub.bytes_per_s = None
    job.run()
    assert is_right(target(job))


def test_the_bundled_model_needs_no_network(make_options, job):
    bundled = DownloadJob(job._catalog, "tiny", make_options(endpoint="http://127.0.0.1:9"))
    model = bundled.run()
    assert model.model_path.name == "stratum-tiny.gguf"
    assert model.own_bytes == 0


def test_an_empty_file_is_a_file(hub, make_options):
    catalog = catalog_for(hub, {MODEL: {NAME: BytesContent(b"")}})
    model = DownloadJob(catalog, MODEL, make_options()).run()
    assert model.model_path.read_bytes() == b""
