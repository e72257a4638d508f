"""The drafters of a loaded model, as the run config wants them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, ResourceError
from engine.core.model_numbers import numbers_of_header
from engine.core.settings import load_settings
from engine.decode.draft.costs import ModelBytes, PassCosts
from engine.decode.draft.drafting import Drafting, DraftSettings
from engine.decode.draft.head import HeadDrafter
from engine.decode.draft.ngram_file import NgramFile, vocabulary_hash
from engine.decode.draft.ngram_sources import NgramSources
from engine.decode.draft.policy import DraftPolicy
from engine.text.vocabulary import read_vocabulary

if TYPE_CHECKING:
    from engine.core.config import RunConfig
    from engine.core.gguf_header import ModelHeader
    from engine.model.trunk import Model

logger = logging.getLogger(__name__)


def make_drafting(model: Model, header: ModelHeader, config: RunConfig) -> Drafting | None:
    """What guesses tokens for this model; None when nothing shall."""
    settings = DraftSettings(
        use_lookup=config.spec_lookup,
        use_head=config.spec_mtp > 0 and model.mtp is not None,
        most_head=config.spec_mtp,
        min_p=config.spec_min_p,
    )
    ngrams = _ngram_sources(header, config) if config.spec_ngram else None
    if not settings.use_lookup and not settings.use_head and ngrams is None:
        return None
    head = None
    if model.mtp is not None and settings.use_head:
        head = HeadDrafter(
            model.mtp,
            max_rows=model.limits.of_head().max_rows,
            page_tokens=model.store.pages.page_tokens,
        )
    policy = DraftPolicy(PassCosts(model_bytes(model, header)))
    return Drafting(settings, policy, head, ngrams)


def _ngram_sources(header: ModelHeader, config: RunConfig) -> NgramSources | None:
    """The n-gram caches; what cannot be used is said, and serving goes on without it."""
    try:
        pieces = read_vocabulary(header.metadata).tokens
    except EngineError as error:
        logger.warning("n-gram caches are not used: %s", error)
        return None
    file = None
    try:
        if config.spec_ngram_file is not None:
            file = NgramFile.open(config.spec_ngram_file, pieces)
    except EngineError as error:
        logger.warning("%s", error)
    learned = None
    if config.spec_ngram_learn:
        try:
            folder = load_settings().data_dir / "drafts"
            learned = folder / f"{vocabulary_hash(pieces).hex()[:16]}.counts"
        except (EngineError, OSError) as error:
            logger.warning("n-gram counts will not be kept: %s", error)
    try:
        return NgramSources(pieces, file, learned)
    except ResourceError as error:
        logger.warning("n-gram caches are not used: %s", error)
        return None


def model_bytes(model: Model, header: ModelHeader) -> ModelBytes:
    """Bytes that a token reads, of experts and of the rest."""
    numbers, config = numbers_of_header(header), model.config
    share = config.num_experts_used / config.num_experts if config.num_experts else 0.0
    return ModelBytes(
        numbers.dense_bytes,
        numbers.expert_bytes * share,
        config.num_experts,
        config.num_experts_used,
    )
