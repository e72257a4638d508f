"""Two hundred prompts: every token is the one that comes without drafts."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL, KvType, OpsName, RunConfig
from engine.core.operating_system import is_x86_64
from engine.decode.constraint import AnswerConstraint
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.kernels.library import CPU_VARIABLE
from engine.text.events import ToolSpec
from engine.text.grammar import answer_grammar
from engine.text.output_rules import FREE_TEXT, CallMode, ToolChoice
from engine.text.tokenizer import Tokenizer
from engine.worker.answer_limits import ordered_stop_ids, with_call_rules
from engine.worker.loading import load_model
from engine.worker.messages import SamplingParams, Start
from tests.support.drafted_runs import answers_of, chat, named_drafting

ROOT = Path(__file__).resolve().parents[4]
GOLDEN = ROOT / "tests" / "golden"
NUM_PROMPTS = 200
MAX_TOKENS = 36
NOUNS = ("river", "lamp", "garden", "window", "engine", "letter", "market", "bridge", "forest")
ASKS = (
    "What do the nouns {0} and {1} mean?",
    "Repeat this text: The {0} stood near the {1}, and the {1} stood near the {0}. The {0} was old.",
    "Write a sentence about a {0} and a {1}.",
    "Rename {0} to {1} in this function:\n\ndef add({0}, x):\n    {0} = {0} + x\n    return {0}",
    "Count from 1 to 20, one number a line, and put {0} and {1} behind each.",
    "{0} {1} {0} {1} {0} {1} {0}",
)
PENALTIES = (
    SamplingParams(temperature=0, presence_penalty=0.8),
    SamplingParams(temperature=0, frequency_penalty=0.5),
    SamplingParams(temperature=0, repetition_penalty=1.3),
    SamplingParams(temperature=0, logit_bias=((11, 4.0), (300, -6.0))),
)
TOOL = ToolSpec(
    "f",
    {
        "properties": {"n": {"enum": [1, 22, 333]}, "text": {"type": "string"}},
        "required": ["n", "text"],
    },
)


def prompts(tokenizer, count=NUM_PROMPTS):
    """Requests by prompts that all differ: half plain, the others with penalties or a form."""
    constraint = answer_grammar(
        [TOOL], ToolChoice(CallMode.REQUIRED), FREE_TEXT, is_parallel=False
    ).constraint
    stops = ordered_stop_ids(tokenizer)
    words = list(itertools.permutations(NOUNS, 2))
    made = []
    for i in range(count):
        text = ASKS[i % len(ASKS)].format(*words[i // len(ASKS)])
        sampling = (
            PENALTIES[i // 4 % len(PENALTIES)] if i % 4 == 1 else SamplingParams(temperature=0)
        )
        start = Start(f"r{i}", chat(tokenizer, text), MAX_TOKENS, stops, sampling)
        if i % 4 == 3:
            start = Start(f"r{i}", start.prompt, MAX_TOKENS, stops, sampling, constraint=constraint)
            start = with_call_rules(start, tokenizer)
        made.append(start)
    assert len({start.prompt for start in made}) == count
    return made


@pytest.fixture(scope="module")
def plain():
    """The bundled model, requests, what holds their answers to a form, and answers without drafts."""
    loaded = load_model(RunConfig(model=BUNDLED_MODEL, context=1024, parallel=3, threads=1))
    tokenizer = Tokenizer.from_metadata(loaded.header.metadata)
    vocabulary = GrammarVocabulary(tokenizer)
    asked = prompts(tokenizer)

    def constrain(start):
        return AnswerConstraint(start, vocabulary)

    wanted, _ = answers_of(loaded, asked, constrain=constrain)
    yield loaded, asked, constrain, wanted
    loaded.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["policy", "both", "sure heads"])
def test_two_hundred_greedy_answers_are_the_same_with_drafts(plain, name):
    loaded, asked, constrain, wanted = plain
    assert sum(len(answer) for answer in wanted.values()) > 10 * NUM_PROMPTS
    drafts = named_drafting(loaded, name)
    got, ends = answers_of(loaded, asked, drafts, constrain=constrain)
    assert got == wanted
    offered = sum(end.timings.draft_tokens for end in ends.values())
    accepted = sum(end.timings.draft_accepted for end in ends.values())
    if name == "policy":  # it decides by times, so nothing is certain
        assert 0 <= accepted <= offered
    else:
        assert 500 < accepted < offered


# Their weights are random; answers of few different tokens are some that drafts can be right about.
GOLDEN_CASES = (
    ("full", "full-mtp", OpsName.REFERENCE),
    ("full", "full-mtp", OpsName.HOST),
    ("nople", None, OpsName.HOST),
    ("odd", None, OpsName.HOST),
    ("quant-Q4_K_M", None, OpsName.HOST),
    ("quant-Q2_0", None, OpsName.HOST),
    ("quant-IQ2_XS", None, OpsName.HOST),
)


@pytest.mark.parametrize(("case", "head", "ops"), GOLDEN_CASES)
def test_golden_models_answer_the_same_with_drafts(case, head, ops):
    config = RunConfig(
        model=GOLDEN / f"{case}.gguf",
        mtp_file=None if head is None else GOLDEN / f"{head}.gguf",
        spec_mtp=0 if head is None else 3,
        ops=ops,
        context=256,
        parallel=2,
        threads=1,
        kv_type=KvType.F32,
    )
    loaded = load_model(config)
    try:
        assert (loaded.model.mtp is not None) == (head is not None)
        vocab_size = loaded.limits.vocab_size
        draw = np.random.default_rng(5)
        starts = []
        for i, sampling in enumerate((SamplingParams(temperature=0), *PENALTIES[:3])):
            phrase = tuple(draw.integers(0, vocab_size, 7).tolist())
            few = tuple((token_id, 12.0) for token_id in phrase[:3])
            held = replace(sampling, logit_bias=few)
            starts.append(Start(f"r{i}", phrase * 4, 40, (), held))
        wanted, _ = answers_of(loaded, starts)
        names = ["lookup", *(["head", "both", "policy"] if head is not None else [])]
        for name in names:
            got, ends = answers_of(loaded, starts, named_drafting(loaded, name))
            assert got == wanted, name
            if name != "policy":
                offered = sum(end.timings.draft_tokens for end in ends.values())
                accepted = sum(end.timings.draft_accepted for end in ends.values())
                assert 5 < accepted < offered, name
    finally:
        loaded.close()


@pytest.mark.skipif(not is_x86_64(), reason="this processor has no such kernels")
@pytest.mark.skipif(CPU_VARIABLE in os.environ, reason="the kernels of this run are chosen already")
def test_answers_of_the_avx2_kernels_are_the_same_with_drafts():
    """In a process of its own: a process keeps the kernels that it has loaded."""
    code = (
        "import pytest, sys\n"
        "sys.exit(pytest.main(['-q', '-n0', '-p', 'no:cacheprovider', sys.argv[1]]))\n"
    )
    test = "tests/engine/decode/draft/test_drafting_with_a_model.py::"
    test += "test_greedy_answers_are_the_same_with_drafts"
    done = subprocess.run(
        [sys.executable, "-c", code, test],
        cwd=ROOT,
        env={**os.environ, CPU_VARIABLE: "avx2"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
