"""Command line of the trainer: `python -m tools.train_tiny train|export|evaluate|check`."""

import argparse
import logging
import sys
from pathlib import Path

from tools.train_tiny.check import differences
from tools.train_tiny.evaluate import report
from tools.train_tiny.export import export
from tools.train_tiny.train import Run, TrainOptions


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.train_tiny", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train from scratch, or go on with --resume")
    train.add_argument("--folder", type=Path, required=True, help="checkpoints, tokenizer, log")
    train.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    train.add_argument("--config-page", type=Path, default=Path("docs/config.md"))
    train.add_argument("--minutes", type=float, default=72.0)
    train.add_argument("--threads", type=int, default=1)
    train.add_argument("--seed", type=int, default=7)
    train.add_argument("--adam-lr", type=float, default=3e-3)
    train.add_argument("--no-muon", action="store_true")
    train.add_argument("--no-compile", action="store_true")
    train.add_argument("--resume", action="store_true")
    exporting = commands.add_parser("export", help="write the GGUF file from a checkpoint")
    exporting.add_argument("--folder", type=Path, required=True)
    exporting.add_argument("--out", type=Path, default=Path("assets/models/stratum-tiny.gguf"))
    exporting.add_argument(
        "--template", type=Path, default=Path("assets/models/chat_template.jinja")
    )
    evaluate = commands.add_parser("evaluate", help="figures and answers of a written file")
    evaluate.add_argument("--folder", type=Path, required=True, help="for its tokenizer")
    evaluate.add_argument("--file", type=Path, default=Path("assets/models/stratum-tiny.gguf"))
    evaluate.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    evaluate.add_argument("--python", default=sys.executable, help="runs the engine")
    evaluate.add_argument("--count", type=int, default=50, help="cases of each kind")
    evaluate.add_argument("--record", type=Path, help="JSON file for the figures")
    check = commands.add_parser("check", help="compare with stored logits of reference models")
    check.add_argument("golden", type=Path)
    return parser.parse_args()


def main() -> int:
    """Runs one command; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    args = _arguments()
    if args.command == "train":
        options = TrainOptions(
            folder=args.folder,
            wordnet=args.wordnet,
            config_page=args.config_page,
            minutes=args.minutes,
            threads=args.threads,
            seed=args.seed,
            use_muon=not args.no_muon,
            adam_lr=args.adam_lr,
            is_resumed=args.resume,
            is_compiled=not args.no_compile,
        )
        Run(options).train()
        return 0
    if args.command == "export":
        export(args.folder, args.out, args.template)
        return 0
    if args.command == "evaluate":
        report(args.folder, args.wordnet, args.file, args.python, args.count, args.record)
        return 0
    found = differences(args.golden)
    for name, difference in found.items():
        logging.getLogger(__name__).info("%s: largest logit difference %.2e", name, difference)
    return 0 if max(found.values()) < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
