"""Small catalogues whose models lie on a fake hub."""

from __future__ import annotations

import json

from engine.core.catalog import Catalog
from engine.core.catalog_file import load_catalog
from tests.fake_hub.content import Content
from tests.fake_hub.server import FakeHub

REPOSITORY = "maker/model-GGUF"


def file_entry(path: str, content: Content, *, is_known: bool = True) -> dict[str, object]:
    """A file of the catalogue, with or without size and checksum."""
    if not is_known:
        return {"path": path}
    return {"path": path, "bytes": content.size, "sha256": content.sha256}


def catalog_for(
    hub: FakeHub,
    models: dict[str, dict[str, Content]],
    *,
    is_known: bool = True,
    mtp: dict[str, object] | None = None,
    mtp_checkpoints: dict[str, object] | None = None,
    shared: dict[str, str] | None = None,
    is_gated: bool = False,
) -> Catalog:
    """Publish models (id -> path -> content) on the hub, each in its own repository.

    Args:
        hub: where.
        models: what.
        is_known: whether the catalogue knows sizes and checksums.
        mtp: the draft head of all of them, as in models.json.
        mtp_checkpoints: as in models.json.
        shared: path -> `shared_as`.
        is_gated: whether the hub wants an account.

    Returns:
        The catalogue: these models and the bundled one.
    """
    real = load_catalog().model_dump(mode="json", by_alias=True)
    tiny_shape = real["families"]["tiny"]["shape"]
    families = {"tiny": real["families"]["tiny"]}
    entries = [model for model in real["models"] if model["is_bundled"]]
    for model_id, files in models.items():
        repository = f"maker/{model_id}-GGUF"
        commit = hub.add(repository, files, is_gated=is_gated)
        families[model_id] = {
            "title": f"Model {model_id}",
            "repository": repository,
            "revision": commit,
            "licence": {"title": "MIT License", "url": "LICENSE"},
            "mtp": mtp,
            "shape": tiny_shape,
        }
        listed = []
        for path, content in files.items():
            if not path.endswith(".gguf"):
                continue
            entry = file_entry(path, content, is_known=is_known)
            if shared and path in shared:
                entry["shared_as"] = shared[path]
            listed.append(entry)
        entries.append(
            {
                "id": model_id,
                "family": model_id,
                "size": "Q8_0",
                "files": listed,
                "needs": {
                    "download_bytes": sum(content.size for content in files.values()),
                    "expert_bytes": 0,
                    "ngram_bytes": 0,
                    "ram_bytes": 1 << 30,
                },
            }
        )
    real |= {"families": families, "models": entries, "mtp_checkpoints": mtp_checkpoints or {}}
    return Catalog.model_validate_json(json.dumps(real))
