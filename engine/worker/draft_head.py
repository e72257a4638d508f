"""Where a model's draft head lies when its own file has none: named by the config, or beside it."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.placement import model_config_of
from engine.decode.draft.vocabulary import ALL, SCRIPTS, IdArray, read_vocabulary_file, script_ids
from engine.gguf.reader import GgufFile
from engine.text.vocabulary import read_vocabulary

logger = logging.getLogger(__name__)

# `mtp-NAME.gguf` as Unsloth names them, `NAME-mtp.gguf` as `engine mtp-import` is asked to.
_PATTERNS = ("mtp-*.gguf", "*-mtp.gguf", "*-MTP.gguf", "mtp.gguf")


def open_draft_head(config: RunConfig, header: ModelHeader) -> GgufFile | None:
    """The file of the draft head; None when there is none, or none that can be opened.

    What cannot be opened is said, and serving goes on without it.
    """
    path = draft_head_path(config, header)
    if path is None:
        return None
    if config.mtp_file is None:
        logger.info("a draft head lies beside the model: %s", path)
    try:
        return GgufFile(read_model_header(path))
    except (EngineError, OSError) as error:
        logger.warning("the draft head is not used: %s", error)
        return None


def draft_head_path(config: RunConfig, header: ModelHeader) -> Path | None:
    """The file of the draft head; None when none is wanted, or the model's own file has it."""
    if config.spec_mtp == 0 or config.mtp_file is not None:
        return config.mtp_file if config.spec_mtp else None
    return None if model_config_of(header).num_mtp_layers else _beside(header.paths[0])


def draft_ids(config: RunConfig, header: ModelHeader) -> IdArray | None:
    """The tokens that the head may propose; None = all. What cannot be used is said, and left out."""
    name = config.spec_vocabulary
    if name == ALL or config.spec_mtp == 0:
        return None
    try:
        vocabulary = read_vocabulary(header.metadata)
        if name in SCRIPTS:
            return script_ids(vocabulary.token_bytes, len(vocabulary.tokens), name)
        return read_vocabulary_file(Path(name), vocabulary.tokens)
    except EngineError as error:
        logger.warning("the draft head may propose every token: %s", error)
        return None


def _beside(model: Path) -> Path | None:
    """The only file beside a model that is named like a draft head; several are none."""
    found = {path for pattern in _PATTERNS for path in model.parent.glob(pattern)} - {model}
    if len(found) > 1:
        names = ", ".join(sorted(path.name for path in found))
        logger.warning("several draft heads lie beside the model (%s): name one in mtp_file", names)
    return found.pop() if len(found) == 1 else None
