"""Where a model's draft head lies when its own file has none: named by the config, or beside it."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.draft_head_file import draft_head_path, heads_beside
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.decode.draft.vocabulary import ALL, SCRIPTS, IdArray, read_vocabulary_file, script_ids
from engine.gguf.reader import GgufFile
from engine.text.vocabulary import read_vocabulary

logger = logging.getLogger(__name__)


def open_draft_head(
    config: RunConfig, header: ModelHeader, *, private: bool = False
) -> GgufFile | None:
    """The file of the draft head; None when there is none, or none that can be opened.

    What cannot be opened is said, and serving goes on without it. `private` as for `GgufFile`.
    """
    path = draft_head_path(config, header)
    if path is None:
        several = ", ".join(path.name for path in heads_beside(config, header))
        if several:
            logger.warning(
                "several draft heads lie beside the model (%s): name one in mtp_file", several
            )
        return None
    if config.mtp_file is None:
        logger.info("a draft head lies beside the model: %s", path)
    try:
        return GgufFile(read_model_header(path), private=private)
    except (EngineError, OSError) as error:
        logger.warning("the draft head is not used: %s", error)
        return None


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
