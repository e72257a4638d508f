"""Which models are there: those of the data folder, the one that came with the program, unfinished ones."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import Catalog
from engine.core.catalog_file import bundled_model_path, load_catalog
from engine.core.config import CONFIG_FORMAT
from engine.core.errors import EngineError
from engine.core.files import read_json, write_json
from engine.core.installed_models import InstalledModel, installed_models, unfinished_models

logger = logging.getLogger(__name__)


class Kind(enum.Enum):
    """Where a model comes from."""

    INSTALLED = enum.auto()
    BUNDLED = enum.auto()
    UNFINISHED = enum.auto()
    OWN = enum.auto()  # a run config that the person wrote, with a file of their own


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One line of the list.

    Attributes:
        model_id: of the catalogue, or the config's name.
        title: for the person.
        folder: where its files lie; None when unknown.
        num_bytes: of its files.
        freed_bytes: what removing it frees; less than its size when files are shared.
        config_path: what is run; None when it cannot be run.
        is_there: its files can be reached; an unplugged drive makes this False, and nothing else.
        installed: the manifest of an installed one.
    """

    kind: Kind
    model_id: str
    title: str
    folder: Path | None
    num_bytes: int
    freed_bytes: int
    config_path: Path | None
    is_there: bool = True
    installed: InstalledModel | None = None


def list_models(data_dir: Path, catalog: Catalog | None = None) -> list[ModelEntry]:
    """All of them: installed ones by title, then own, bundled, unfinished ones."""
    catalog = catalog or load_catalog()
    models_dir, configs_dir = data_dir / "models", data_dir / "configs"
    installed = installed_models(models_dir)
    entries = sorted((_installed(model, configs_dir) for model in installed), key=_by_title)
    known = {model.id for model in installed} | {catalog.bundled.id}
    entries += sorted(_own(configs_dir, known), key=_by_title)
    entries.append(_bundled(catalog, configs_dir))
    for model_id, num_bytes in unfinished_models(models_dir).items():
        found = catalog.find(model_id)
        title = catalog.title_of(found) if found is not None else model_id
        folder = models_dir / model_id
        entries.append(
            ModelEntry(Kind.UNFINISHED, model_id, title, folder, num_bytes, num_bytes, None)
        )
    return entries


def usable_config(entry: ModelEntry) -> Path | None:
    """The run config to make active; that of the bundled model is written when it is missing.

    Raises:
        ResourceError: it cannot be written.
    """
    path = entry.config_path
    if path is not None and entry.kind is Kind.BUNDLED and not path.exists():
        write_json(path, {"format": CONFIG_FORMAT, "model_id": entry.model_id})
    return path


def _by_title(entry: ModelEntry) -> str:
    return entry.title.casefold()


def _installed(model: InstalledModel, configs_dir: Path) -> ModelEntry:
    paths = [model.path_of(file) for file in model.files]
    config = configs_dir / f"{model.id}.json"
    is_there = all(path.exists() for path in paths)
    return ModelEntry(
        kind=Kind.INSTALLED,
        model_id=model.id,
        title=model.title,
        folder=model.model_path.parent,
        num_bytes=sum(file.bytes for file in model.files),
        freed_bytes=sum(
            file.bytes
            for file, path in zip(model.files, paths, strict=True)
            if file.is_own and not _is_shared(path)
        ),
        config_path=config if config.exists() else None,
        is_there=is_there,
        installed=model,
    )


def _bundled(catalog: Catalog, configs_dir: Path) -> ModelEntry:
    model, path = catalog.bundled, bundled_model_path(catalog)
    size = path.stat().st_size if path.exists() else 0
    return ModelEntry(
        kind=Kind.BUNDLED,
        model_id=model.id,
        title=catalog.title_of(model),
        folder=path.parent,
        num_bytes=size,
        freed_bytes=0,
        config_path=configs_dir / f"{model.id}.json",
        is_there=path.exists(),
    )


def _own(configs_dir: Path, known: set[str]) -> Iterator[ModelEntry]:
    for path in sorted(configs_dir.glob("*.json")):
        if path.stem in known:
            continue
        try:
            content = read_json(path, CONFIG_FORMAT)
        except EngineError as error:
            logger.info("%s", error)
            continue
        name, file = content.get("model_id"), content.get("model")
        model = path.parent / file if isinstance(file, str) else None
        size = model.stat().st_size if model is not None and model.exists() else 0
        yield ModelEntry(
            kind=Kind.OWN,
            model_id=path.stem,
            title=name if isinstance(name, str) and name else path.stem,
            folder=model.parent if model is not None else None,
            num_bytes=size,
            freed_bytes=0,
            config_path=path,
            is_there=model is None or model.exists(),
        )


def _is_shared(path: Path) -> bool:
    """Whether another model has the same file, so that deleting this name frees nothing."""
    try:
        return path.stat().st_nlink > 1
    except OSError:
        return False
