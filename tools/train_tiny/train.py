"""The training run: timed schedule, log lines, checkpoints, resuming.

The learning rate follows the share of the allowed wall time that is spent, not a step count: on
a busy machine the run then still ends cooled down, only with fewer steps. Stage 0 lasts until a
probe shows that the model copies random tokens, the last stage is the last eighth of the time.
"""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tools.train_tiny import tokenizer as tokenizers_
from tools.train_tiny.batches import Batch, batches
from tools.train_tiny.chat import ChatEncoder
from tools.train_tiny.data import Mixer, sample_texts
from tools.train_tiny.editing import library_functions
from tools.train_tiny.indexer_fit import fit_indexers
from tools.train_tiny.layers import Precision, compile_pieces
from tools.train_tiny.losses import step_loss
from tools.train_tiny.model import TinyModel, init_params
from tools.train_tiny.optim import Optimisers
from tools.train_tiny.probe import copy_accuracy
from tools.train_tiny.shape import TinyShape, bundled_shape
from tools.train_tiny.wordnet import read_meanings

logger = logging.getLogger(__name__)

WARMUP_STEPS = 60
CHECKPOINT_EVERY_S = 240.0
LOG_EVERY = 20
MTP_SHARE = 0.5  # of the rows; the draft head sees less than the trunk, and costs a tenth
PROBE_EVERY = 30
PROBE_PASSED = 0.9
LAST_STAGE_FROM = 0.87  # of the allowed time


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What a run is told."""

    folder: Path
    wordnet: Path
    minutes: float
    threads: int = 1
    seed: int = 7
    config_page: Path = Path("docs/config.md")
    vocab_size: int = 4096
    use_muon: bool = True
    adam_lr: float = 3e-3
    is_resumed: bool = False
    is_compiled: bool = True


def prepare_tokenizer(options: TrainOptions) -> Path:
    """Returns the tokenizer file of the run's folder, trained now if it is missing."""
    path = options.folder / "tokenizer.json"
    if not path.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        texts = sample_texts(
            read_meanings(options.wordnet), library_functions(), options.config_page
        )
        tokenizers_.train(texts, options.vocab_size).save(str(path))
    return path


def _rate(step: int, spent: float) -> float:
    """Learning-rate factor: linear warm-up by steps, then linear to zero by time spent (0 to 1)."""
    return min(1.0, (step + 1) / WARMUP_STEPS) * max(0.0, 1.0 - spent)


def _to_torch(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.from_numpy(batch.tokens),
        torch.from_numpy(batch.targets),
        torch.from_numpy(batch.weights),
    )


class Run:
    """One training run and its files."""

    def __init__(self, options: TrainOptions) -> None:
        """Builds everything, or takes it back from the last checkpoint."""
        torch.set_num_threads(options.threads)
        torch.set_flush_denormal(True)  # decays make denormals, and those cost a trap each
        Precision.fast = True
        if options.is_compiled:
            compile_pieces()
        self.options = options
        tokenizer = tokenizers_.load(prepare_tokenizer(options))
        special = tokenizers_.special_ids(tokenizer)
        segment = special[tokenizers_.END_OF_TEXT]
        self.shape: TinyShape = bundled_shape(options.vocab_size, segment)
        self.params = init_params(self.shape, options.seed)
        self.model = TinyModel(self.shape, self.params)
        self.optimisers = Optimisers(self.params, options.use_muon, options.adam_lr)
        self.step = 0
        self.tokens_seen = 0
        self.spent_s = 0.0
        self.stage = 0
        if options.is_resumed:
            self._resume()
            fit_indexers(self.model, self.step)
        self.mixer = Mixer(
            read_meanings(options.wordnet),
            library_functions(),
            options.config_page,
            options.seed + self.step,
            ChatEncoder(tokenizer),
        )
        self.mixer.set_stage(self.stage)
        self.batches: Iterator[Batch] = batches(self.mixer.rows(), segment)

    @property
    def checkpoint_path(self) -> Path:
        """The newest checkpoint."""
        return self.options.folder / "checkpoint.pt"

    def _resume(self) -> None:
        saved = torch.load(self.checkpoint_path, weights_only=True)
        for name, value in saved["params"].items():
            self.params[name].data.copy_(value)
        self.optimisers.load_state_dict(saved["optimisers"])
        self.step, self.tokens_seen = saved["step"], saved["tokens_seen"]
        self.spent_s, self.stage = saved["spent_s"], saved["stage"]
        logger.info("resumed at step %d after %.0f s", self.step, self.spent_s)

    def save(self) -> None:
        """Writes a checkpoint; the old one stays valid until the new one is whole."""
        fresh = self.checkpoint_path.with_suffix(".new")
        torch.save(
            {
                "params": {n: p.detach() for n, p in self.params.items()},
                "optimisers": self.optimisers.state_dict(),
                "step": self.step,
                "tokens_seen": self.tokens_seen,
                "spent_s": self.spent_s,
                "stage": self.stage,
                "shape": json.dumps(asdict(self.shape)),
            },
            fresh,
        )
        fresh.replace(self.checkpoint_path)

    def train(self) -> None:
        """Trains until the allowed minutes are spent."""
        allowed_s = self.options.minutes * 60
        last_save = self.spent_s
        losses: list[float] = []
        mtp_losses: list[float] = []
        while self.spent_s < allowed_s:
            started = time.monotonic()
            tokens, targets, weights = _to_torch(next(self.batches))
            mtp_share = MTP_SHARE
            if tokens.shape[0] * mtp_share < 1:  # few long rows: all of them, but not in each step
                mtp_share = 1.0 if self.step % round(1 / mtp_share) == 0 else 0.0
            loss = step_loss(self.model, tokens, targets, weights, mtp_share)
            loss.total.backward()  # type: ignore[no-untyped-call]
            norm = self.optimisers.step(_rate(self.step, self.spent_s / allowed_s))
            self.step += 1
            self.tokens_seen += tokens.numel()
            # The first steps compile the fused pieces; that time is not training time.
            self.spent_s += min(time.monotonic() - started, 8.0)
            losses.append(loss.main)
            mtp_losses.append(loss.mtp)
            if self.step % LOG_EVERY == 0:
                self._log(losses, mtp_losses, norm)
                losses, mtp_losses = [], []
            if self.step % PROBE_EVERY == 0:
                self._probe()
            if self.stage == 1 and self.spent_s > LAST_STAGE_FROM * allowed_s:
                self._enter(2)
            if self.spent_s - last_save > CHECKPOINT_EVERY_S:
                fit_indexers(self.model, self.step)
                self.save()
                last_save = self.spent_s
        fit_indexers(self.model, self.step)
        self.save()

    def _probe(self) -> None:
        accuracy = copy_accuracy(self.model)
        logger.info("probe: copies %.3f of random tokens, stage %d", accuracy, self.stage)
        if self.stage == 0 and accuracy >= PROBE_PASSED:
            self._enter(1)

    def _enter(self, stage: int) -> None:
        self.stage = stage
        self.mixer.set_stage(stage)
        logger.info("stage %d from step %d on", stage, self.step)

    def _log(self, losses: list[float], mtp: list[float], norm: float) -> None:
        line = {
            "step": self.step,
            "seconds": round(self.spent_s),
            "tokens": self.tokens_seen,
            "loss": round(float(np.mean(losses)), 4),
            "mtp": round(float(np.mean(mtp)), 4),
            "norm": round(norm, 2),
        }
        logger.info("%s", json.dumps(line))
        with (self.options.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
