"""The draft head of a model, from the ready file or from the checkpoint's tensors on a fake hub."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.catalog import FileKind
from engine.gguf.reader import GgufFile
from installer.download.job import DownloadJob
from installer.download.plan import Action
from installer.download.progress import Phase
from installer.errors import HubError, NetworkError, PreparationError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.fake_hub.faults import Fault, Kind
from tests.support.golden import GOLDEN, model_file
from tests.support.mtp_checkpoint import golden_checkpoint, safetensors_shards

CHECKPOINT = "maker/original"
MODEL = BytesContent((GOLDEN / "full.gguf").read_bytes())
FILES, HASHES = safetensors_shards(golden_checkpoint(), 3)
SIDECAR = BytesContent((GOLDEN / "full-mtp.gguf").read_bytes())


def make_catalog(hub, *, sidecar=None, models=("m",)):
    commit = hub.add(CHECKPOINT, {path: BytesContent(data) for path, data in FILES.items()})
    checkpoint = {
        "repository": CHECKPOINT,
        "revision": commit,
        "tensors": HASHES,
        "download_bytes": 600_000,
        "expert_format": "Q8_0",
        "file_bytes": 400_000,
    }
    mtp = {"checkpoint": "original", "sidecar": sidecar}
    return catalog_for(
        hub,
        {model: {f"{model}.gguf": MODEL} for model in models},
        mtp=mtp,
        mtp_checkpoints={"original": checkpoint},
    )


def shard_requests(hub):
    return [r for r in hub.byte_requests if r.path.startswith("/blobs/") and r.range is not None]


def test_a_head_is_made_from_the_tensors_alone(hub, make_options):
    job = DownloadJob(make_catalog(hub), "m", make_options())
    plan = job.plan()
    assert [(file.kind, file.action) for file in plan.files] == [
        (FileKind.MODEL, Action.FETCH),
        (FileKind.DRAFT_HEAD, Action.BUILD),
    ]
    seen = []
    model = job.run(seen.append)
    path = model.first(FileKind.DRAFT_HEAD)
    assert path is not None
    assert path.parent == model.model_path.parent
    with GgufFile.open(path) as head:
        assert set(head.tensors) == set(model_file("full-mtp").tensors)
        name = "blk.4.hc_attn_norm.weight"
        wanted = model_file("full-mtp").tensors[name].dequantise()
        np.testing.assert_allclose(head.tensors[name].dequantise(), wanted, atol=1e-6)
    assert Phase.PREPARING in {report.phase for report in seen}
    assert seen[-1].bytes_done == seen[-1].bytes_total
    tensor_bytes = sum(values.nbytes for values in golden_checkpoint().values())
    assert hub.sent_bytes < MODEL.size + tensor_bytes + 30_000  # headers, and nothing between
    assert sorted(p.name for p in model.folder.parent.iterdir() if p.is_dir()) == ["m"]


def test_a_mirror_that_ignores_ranges_makes_no_head(hub, make_options):
    job = DownloadJob(make_catalog(hub), "m", make_options())
    hub.faults.add(Fault(Kind.IGNORE_RANGE, path="-of-00003", skip=6, times=-1))
    with pytest.raises(HubError) as caught:
        job.run()
    assert caught.value.code == "mirror_ignores_range"
    assert list((job.options.models_dir / "m").glob("mtp-*")) == []


def test_a_broken_line_resumes_inside_a_tensor(hub, make_options):
    job = DownloadJob(make_catalog(hub), "m", make_options())
    hub.faults.add(Fault(Kind.CUT, path="-of-00003", skip=12, after_bytes=500))
    hub.faults.add(Fault(Kind.WRONG_BYTE, path="-of-00003", skip=13, after_bytes=20_000))
    model = job.run()
    assert model.first(FileKind.DRAFT_HEAD) is not None


def test_an_interrupted_head_goes_on_with_the_tensors_that_are_missing(hub, make_options):
    catalog = make_catalog(hub)
    hub.faults.add(Fault(Kind.STATUS, status=503, path="-of-00003", skip=20, times=-1))
    with pytest.raises(NetworkError):
        DownloadJob(catalog, "m", make_options()).run()
    hub.faults.clear()
    before = len(shard_requests(hub))
    DownloadJob(catalog, "m", make_options()).run()
    # Of 31 tensors 14 were there (6 requests were for headers); the headers are read again.
    assert len(shard_requests(hub)) - before == 6 + 31 - 14


def test_a_second_model_uses_the_head_that_is_there(hub, make_options):
    catalog = make_catalog(hub, models=("m", "n"))
    first = DownloadJob(catalog, "m", make_options()).run()
    before = hub.sent_bytes
    job = DownloadJob(catalog, "n", make_options())
    assert [file.action for file in job.plan().files] == [Action.LINK, Action.LINK]
    second = job.run()
    assert hub.sent_bytes == before
    one, other = first.first(FileKind.DRAFT_HEAD), second.first(FileKind.DRAFT_HEAD)
    assert one is not None
    assert other is not None
    assert one.samefile(other)


def test_the_ready_file_is_taken_where_there_is_one(hub, make_options):
    commit = hub.add("maker/heads", {"mtp.gguf": SIDECAR})
    sidecar = {"path": "mtp.gguf", "repository": "maker/heads", "revision": commit}
    model = DownloadJob(make_catalog(hub, sidecar=sidecar), "m", make_options()).run()
    path = model.first(FileKind.DRAFT_HEAD)
    assert path is not None
    assert path.read_bytes() == SIDECAR.data
    assert not any("original" in request.path for request in hub.requests)


def test_without_the_ready_file_the_head_is_made(hub, make_options):
    commit = hub.add("maker/heads", {"other.gguf": SIDECAR})
    sidecar = {"path": "mtp.gguf", "repository": "maker/heads", "revision": commit}
    job = DownloadJob(make_catalog(hub, sidecar=sidecar), "m", make_options())
    assert [file.action for file in job.plan().files] == [Action.FETCH, Action.BUILD]


def test_no_head_is_fetched_when_none_is_wanted(hub, make_options):
    job = DownloadJob(make_catalog(hub), "m", make_options(with_draft_head=False))
    assert [file.kind for file in job.plan().files] == [FileKind.MODEL]


def test_a_checkpoint_that_is_none_is_an_error(hub, make_options):
    catalog = make_catalog(hub)
    commit = catalog.mtp_checkpoints["original"].revision
    broken = dict(FILES)
    broken["model-00002-of-00003.safetensors"] = b"\xff" * 5000
    hub.add(CHECKPOINT, {p: BytesContent(d) for p, d in broken.items()}, commit=commit)
    with pytest.raises(HubError) as caught:
        DownloadJob(catalog, "m", make_options()).run()
    assert caught.value.code == "checkpoint_damaged"


def test_an_engine_that_fails_is_quoted_and_the_tensors_stay(hub, make_options):
    job = DownloadJob(
        make_catalog(hub), "m", make_options(engine_command=("python3", "-c", "exit('no room')"))
    )
    with pytest.raises(PreparationError, match="no room"):
        job.run()
    assert list(job.options.models_dir.glob(".mtp-*/*.bin"))
