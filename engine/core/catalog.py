"""What can be installed: the types of `models.json`.

A family is one set of weights by one publisher; a model is one size of it, with the files that it
consists of and what it needs. Adding a model is adding an entry. Bytes and SHA-256 of a file may be
absent: they are then read from the hub at the pinned revision before the first byte is fetched.
Reading the file, with sentences for a mistake made by hand, is in `catalog_file.py`.
"""

from __future__ import annotations

import enum
import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

CATALOG_FORMAT: Literal[1] = 1

_SHARD = re.compile(r".*-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Repository = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")]
ModelId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Bytes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    """Unknown keys are mistakes here: the file is written by us, and changed by hand."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FileKind(enum.StrEnum):
    """What a file of a model is for."""

    MODEL = "model"
    DRAFT_HEAD = "draft_head"
    IMAGE_ENCODER = "image_encoder"


class CatalogFile(_Strict):
    """One file to download.

    Attributes:
        path: in the repository, or for the bundled model below the program's folder.
        bytes: exact size; None until the hub was asked.
        sha256: of the content; None until the hub was asked.
        shared_as: files of different models with the same name here have the same content, so one
            download serves all.
    """

    path: str
    bytes: Bytes | None = None
    sha256: Sha256 | None = None
    shared_as: str | None = None

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\\" in self.path:
            raise ValueError("the path must be relative, with / between its parts and without ..")
        return self

    @property
    def name(self) -> str:
        """The file's own name."""
        return PurePosixPath(self.path).name


class RemoteFile(CatalogFile):
    """A file that lies in a repository of its own."""

    repository: Repository
    revision: Revision


class Sampling(_Strict):
    """Sampling values that the publisher recommends."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_k: Count
    min_p: Annotated[float, Field(ge=0, le=1)]
    presence_penalty: Annotated[float, Field(ge=-2, le=2)]
    repetition_penalty: Annotated[float, Field(gt=0, le=2)]


class SamplingPresets(_Strict):
    """Sampling with and without thinking."""

    thinking: Sampling
    instruct: Sampling


class Licence(_Strict):
    """The licence of the weights.

    Attributes:
        title: its name.
        url: where it can be read.
        must_accept: whether the person is asked before the download.
        is_verified: whether the title was read from the publisher's own page.
    """

    title: str
    url: str
    must_accept: bool = True
    is_verified: bool = False


class MtpCheckpoint(_Strict):
    """A checkpoint whose draft head is fetched tensor by tensor and quantised on this PC.

    Attributes:
        repository: its repository.
        revision: the pinned revision.
        index_path: the file that says which shard holds which tensor.
        tensors: name -> SHA-256 of its bytes.
        download_bytes: about what is fetched.
        expert_format: block format of the experts, such as `Q2_0`.
        file_bytes: about the size of the finished file.
    """

    repository: Repository
    revision: Revision
    index_path: str = "model.safetensors.index.json"
    tensors: dict[str, Sha256]
    download_bytes: Bytes
    expert_format: Literal["Q2_0", "Q4_0", "Q8_0", "BF16"]
    file_bytes: Bytes


class MtpSource(_Strict):
    """Where a family's draft head comes from: a finished file where there is one.

    Attributes:
        sidecar: a finished file; when the hub does not have it, the checkpoint is used.
        checkpoint: name of an entry of `Catalog.mtp_checkpoints`.
    """

    sidecar: RemoteFile | None = None
    checkpoint: str | None = None


class ModelShape(_Strict):
    """Sizes that estimates need before any file is there; the files' own headers decide later.

    Attributes:
        kv_layers: attention layers whose keys and values are kept, the draft layer included.
        vocab_size: tokens that it knows.
    """

    layers: Count
    attention_layers: Count
    kv_layers: Count
    experts_per_layer: Count
    experts_used: Count
    hidden_size: Count
    kv_heads: Count
    head_size: Count
    index_key_size: Count
    block_ratio: Count
    trained_context: Count
    vocab_size: Count


class ModelNeeds(_Strict):
    """What a model takes, as numbers. Those of a download are about right; headers decide later.

    Attributes:
        download_bytes: all model files together.
        expert_bytes: the routed experts, which live in RAM and VRAM.
        ngram_bytes: the n-gram table, which is read from the disk row by row.
        ram_bytes: RAM that the PC should have (compare with a tolerance: kits report less).
        has_ram_budget: runs with less RAM than its experts take, the rest is read from the disk.
        is_experimental: works, but is not recommended.
    """

    download_bytes: Bytes
    expert_bytes: Bytes
    ngram_bytes: Bytes
    ram_bytes: Bytes
    has_ram_budget: bool = False
    is_experimental: bool = False

    @property
    def dense_bytes(self) -> int:
        """What every token reads: mixers, routers, shared experts, embedding and head."""
        return max(0, self.download_bytes - self.expert_bytes - self.ngram_bytes)


class ReferenceSpeed(_Strict):
    """Published speed on the reference machine (`Catalog.reference_machine`), in tokens/s."""

    short_chat: Rate
    context_128k: Rate | None = None
    prompt: Rate | None = None


class Family(_Strict):
    """What all sizes of a family share.

    Attributes:
        title: shown to the person.
        repository: None for the bundled model.
        revision: the pinned revision.
        notes: stable codes of things to say about it, such as `english_only`; texts are the wizard's.
    """

    title: str
    repository: Repository | None = None
    revision: Revision | None = None
    licence: Licence
    notes: tuple[str, ...] = ()
    mtp: MtpSource | None = None
    image_encoder: RemoteFile | None = None
    shape: ModelShape


class CatalogModel(_Strict):
    """One model that can be installed.

    Attributes:
        id: stable; what `--model` takes.
        family: name of an entry of `Catalog.families`.
        size: name of the quantisation.
        files: in the order of their shards.
        is_bundled: comes with the program, so it works without a network.
    """

    id: ModelId
    family: str
    size: str
    files: Annotated[tuple[CatalogFile, ...], Field(min_length=1)]
    needs: ModelNeeds
    speed: ReferenceSpeed | None = None
    notes: tuple[str, ...] = ()
    is_bundled: bool = False

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError(f"two files of {self.id} have the same name")
        shards = [_SHARD.fullmatch(name) for name in names]
        for index, shard in enumerate(shards):
            if shard is None:
                if len(names) > 1:
                    raise ValueError(
                        f"{names[index]} must be named like NAME-00001-of-00002.gguf, since "
                        f"{self.id} has several files"
                    )
            elif (int(shard["number"]), int(shard["count"])) != (index + 1, len(names)):
                raise ValueError(
                    f"{names[index]} is file {index + 1} of the {len(names)} files of {self.id}, "
                    "which its name does not say"
                )
        return self

    @property
    def known_bytes(self) -> int | None:
        """Exact size of all files; None when the hub must be asked."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)


class Catalog(_Strict):
    """All that can be installed.

    Attributes:
        min_driver: least version of the NVIDIA driver, by operating system (`linux`, `windows`).
        context_choices: context lengths to offer, in tokens.
        reference_machine: on which `ReferenceSpeed` was published.
    """

    format: Literal[1] = CATALOG_FORMAT
    json_schema: Annotated[str | None, Field(alias="$schema")] = None
    min_driver: dict[str, Count]
    context_choices: tuple[Count, ...]
    reference_machine: str
    sampling: SamplingPresets
    mtp_checkpoints: dict[str, MtpCheckpoint]
    families: dict[str, Family]
    models: Annotated[tuple[CatalogModel, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        ids = [model.id for model in self.models]
        for model in self.models:
            if ids.count(model.id) > 1:
                raise ValueError(f"the id {model.id} appears twice in models")
            family = self.families.get(model.family)
            if family is None:
                raise ValueError(f"{model.id} names the family {model.family}, which is not there")
            if not model.is_bundled and (family.repository is None or family.revision is None):
                raise ValueError(f"the family {model.family} lacks its repository or its revision")
        for name, family in self.families.items():
            checkpoint = family.mtp.checkpoint if family.mtp is not None else None
            if checkpoint is not None and checkpoint not in self.mtp_checkpoints:
                raise ValueError(
                    f"the family {name} names the checkpoint {checkpoint}, which is not there"
                )
        if sum(model.is_bundled for model in self.models) != 1:
            raise ValueError("exactly one model must be the bundled one (is_bundled)")
        self._check_shared()
        return self

    def _check_shared(self) -> None:
        first: dict[str, CatalogFile] = {}
        for model in self.models:
            for file in model.files:
                if file.shared_as is None:
                    continue
                other = first.setdefault(file.shared_as, file)
                if (file.bytes, file.sha256) != (other.bytes, other.sha256):
                    raise ValueError(
                        f"{other.path} and {file.path} are shared as {file.shared_as} and must "
                        "have the same bytes and sha256"
                    )

    @property
    def bundled(self) -> CatalogModel:
        """The model that comes with the program."""
        return next(model for model in self.models if model.is_bundled)

    def family_of(self, model: CatalogModel) -> Family:
        """The model's family."""
        return self.families[model.family]

    def title_of(self, model: CatalogModel) -> str:
        """How a model is called: family and size."""
        family = self.families[model.family]
        return family.title if model.is_bundled else f"{family.title}, {model.size}"

    def find(self, model_id: str) -> CatalogModel | None:
        """The model with this id."""
        return next((model for model in self.models if model.id == model_id), None)
