"""How much of each model lies in the data folder already, finished or in parts.

Only sizes are looked at, for estimates before a download; the plan of a download verifies contents.
"""

from __future__ import annotations

from pathlib import Path

from engine.core.catalog import Catalog

_PART_ENDING = ".part"


def present_bytes(catalog: Catalog, data_dir: Path) -> dict[str, int]:
    """Bytes of each model's files that need not be fetched again, by the model's id.

    A file that several models share counts for all of them, wherever it lies.
    """
    models_dir = data_dir / "models"
    shared: dict[str, int] = {}
    own: dict[str, int] = {}
    for model in catalog.models:
        if model.is_bundled:
            continue
        folder = models_dir / model.id
        own[model.id] = 0
        for file in model.files:
            size = max(_size(folder / file.name), _size(folder / (file.name + _PART_ENDING)))
            if file.shared_as is None:
                own[model.id] += size
            else:
                shared[file.shared_as] = max(size, shared.get(file.shared_as, 0))
    for model in catalog.models:
        if not model.is_bundled:
            names = {file.shared_as for file in model.files if file.shared_as is not None}
            own[model.id] += sum(shared[name] for name in names)
    return {model_id: size for model_id, size in own.items() if size}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
