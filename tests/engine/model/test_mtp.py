"""The draft head: golden values, chained drafts, and the layouts that are published."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.core.errors import InputError, ModelFileError, ResourceError
from engine.device.array import host_copy
from engine.gguf.reader import Tensor
from engine.model.mtp import DraftEntry
from engine.model.tensor_parts import column_range
from engine.model.trunk import Model
from engine.sequence.batch import LogitsWanted
from engine.sequence.state import SequenceState
from tests.support.golden import (
    OPS_NAMES,
    RecordingOps,
    arrays,
    assert_logits,
    bound,
    forward,
    golden_limits,
    load_golden,
    make_golden_ops,
    model_file,
)

NUM_TRUNK_LAYERS = 4
NEXTN = f"blk.{NUM_TRUNK_LAYERS}.nextn."


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_one_pass_of_the_head_gives_the_golden_values(ops_name):
    golden = arrays("full-mtp")
    model = load_golden("full", ops_name, mtp="full-mtp", record=True)
    assert model.mtp is not None
    assert isinstance(model.ops, RecordingOps)
    entry = DraftEntry(
        model.new_sequence(),
        golden["in_streams"],
        golden["next_tokens"].tolist(),
        LogitsWanted.ALL,
    )
    result = model.mtp.forward([entry])
    probes, limit = golden["probe_positions"], bound(ops_name)
    assert np.abs(host_copy(result.streams)[probes] - golden["probe_multi_out"]).max() < limit
    assert np.abs(model.ops.mixes[-1][0][probes] - golden["probe_mixed"]).max() < limit
    assert np.abs(result.logits - golden["mtp_logits"]).max() < limit
    assert_logits(ops_name, "full", result.logits, golden["mtp_logits"])


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_the_trunk_feeds_the_head_and_chained_drafts_are_the_golden_ones(ops_name):
    golden = arrays("full-mtp")
    tokens = golden["tokens"].tolist()
    model = load_golden("full", ops_name, mtp="full-mtp")
    assert model.mtp is not None
    sequence = model.new_sequence()
    limit = bound(ops_name)
    done = 0
    for chain, position in enumerate(golden["chain_positions"].tolist()):
        # the trunk's pass over the next part, and the head's entries for it
        streams = forward(model, sequence, tokens[done : position + 1]).streams.copy()
        sequence.commit(position + 1 - done)
        assert sequence.last_streams is not None
        np.testing.assert_array_equal(sequence.last_streams, streams[-1])
        result = model.mtp.forward([DraftEntry(sequence, streams, tokens[done + 1 : position + 2])])
        done = position + 1
        assert sequence.mtp_length == done

        for step, drafted in enumerate(golden["chain_tokens"][chain].tolist()):
            logits = result.logits[0]
            assert np.abs(logits - golden["chain_logits"][chain, step]).max() < limit
            assert int(logits.argmax()) == drafted
            fed_back = result.streams[-1:].copy()
            result = model.mtp.forward([DraftEntry(sequence, fed_back, [drafted])])
        sequence.truncate_mtp(done)  # what drafting made is thrown away


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_the_head_in_pieces_and_beside_another_sequence_gives_the_same_bits(ops_name):
    golden = arrays("full-mtp")
    streams, tokens = golden["in_streams"], golden["next_tokens"].tolist()
    model = load_golden("full", ops_name, mtp="full-mtp")
    assert model.mtp is not None
    whole = model.new_sequence()
    wanted = model.mtp.forward([DraftEntry(whole, streams, tokens, LogitsWanted.ALL)]).logits.copy()
    first, second = model.new_sequence(), model.new_sequence()
    got: list[np.ndarray] = []
    other: list[np.ndarray] = []
    for start, stop in ((0, 1), (1, 6), (6, 40), (40, len(tokens))):
        part = slice(start, stop)
        result = model.mtp.forward(
            [
                DraftEntry(second, host_copy(streams)[part][::-1], tokens[part], LogitsWanted.ALL),
                DraftEntry(first, streams[part], tokens[part], LogitsWanted.ALL),
            ]
        )
        got.append(result.logits_of(1).copy())
        other.append(result.logits_of(0).copy())
    np.testing.assert_array_equal(np.concatenate(got), wanted)
    assert np.abs(np.concatenate(other) - wanted).max() > 0.1


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_a_checkpoint_holds_the_heads_entries_too(ops_name):
    golden = arrays("full-mtp")
    streams, tokens = golden["in_streams"], golden["next_tokens"].tolist()
    model = load_golden("full", ops_name, mtp="full-mtp")
    assert model.mtp is not None
    sequence, other = model.new_sequence(), model.new_sequence()

    def enter(state: SequenceState, start: int, stop: int) -> np.ndarray:
        assert model.mtp is not None
        entry = DraftEntry(state, streams[start:stop], tokens[start:stop], LogitsWanted.ALL)
        return model.mtp.forward([entry]).logits.copy()

    forward(model, sequence, golden["tokens"][:65])
    sequence.commit(65)
    enter(sequence, 0, 60)
    checkpoint = sequence.snapshot()
    wanted = enter(sequence, 60, 80)
    sequence.restore(checkpoint)
    other.restore(checkpoint)
    assert other.mtp_length == 60
    first = enter(sequence, 60, 66)  # writes into a page that the trunk's tokens share
    enter(other, 90, 100)
    second = enter(sequence, 66, 80)
    np.testing.assert_array_equal(np.concatenate([first, second]), wanted)


def test_entries_that_find_no_pages_leave_every_sequence_as_it_was():
    golden = arrays("full-mtp")
    model = load_golden("full", "reference", mtp="full-mtp", kv_pages=3)
    assert model.mtp is not None
    first, second = model.new_sequence(), model.new_sequence()
    entries = [
        DraftEntry(state, golden["in_streams"][:40], golden["next_tokens"][:40].tolist())
        for state in (first, second)
    ]
    with pytest.raises(ResourceError, match="cache is full"):
        model.mtp.forward(entries)
    assert (first.mtp_length, second.mtp_length) == (0, 0)
    assert model.store.pages.num_free == 3


def test_draft_entries_that_make_no_sense_are_refused():
    golden = arrays("full-mtp")
    model = load_golden("full", "reference", mtp="full-mtp")
    assert model.mtp is not None
    state = model.new_sequence()
    one = DraftEntry(state, golden["in_streams"][:1], golden["next_tokens"][:1].tolist())
    with pytest.raises(ValueError, match="twice"):
        model.mtp.forward([one, one])
    with pytest.raises(ValueError, match="needs tokens"):
        model.mtp.forward([one, DraftEntry(model.new_sequence(), golden["in_streams"][:0], [])])
    with pytest.raises(InputError, match="not in the model's vocabulary"):
        model.mtp.forward([DraftEntry(state, golden["in_streams"][:1], [384])])


@dataclass
class FakeFile:
    """A model file in memory."""

    metadata: dict[str, object]
    tensors: dict[str, Tensor] = field(default_factory=dict)


def renamed(tensor: Tensor, name: str) -> Tensor:
    return Tensor(name, tensor.type, tensor.shape, tensor.data)


def sidecar(names: dict[str, str]) -> FakeFile:
    """The golden head with some tensors called otherwise."""
    file = model_file("full-mtp")
    fake = FakeFile(dict(file.metadata))
    for name, tensor in file.tensors.items():
        fake.tensors[names.get(name, name)] = renamed(tensor, names.get(name, name))
    return fake


def split_joined(fake: FakeFile, embedding: str, hidden: str) -> FakeFile:
    joined = fake.tensors.pop(f"{NEXTN}eh_proj.weight")
    half = joined.shape[1] // 2
    fake.tensors[embedding] = renamed(column_range(joined, 0, half), embedding)
    fake.tensors[hidden] = renamed(column_range(joined, half, 2 * half), hidden)
    return fake


def exit_names(prefix: str) -> dict[str, str]:
    return {f"{NEXTN}hc_head_{p}.weight": f"{prefix}{p}.weight" for p in ("norm", "down", "up")}


def layout_b() -> FakeFile:
    return sidecar(exit_names("output_hc_"))


def layout_b_shared_head_norm() -> FakeFile:
    names = exit_names("output_hc_")
    names[f"{NEXTN}hc_head_norm.weight"] = f"{NEXTN}shared_head_norm.weight"
    return sidecar(names)


def layout_c() -> FakeFile:
    fake = sidecar(exit_names(f"{NEXTN}hc_"))
    return split_joined(fake, f"{NEXTN}fc_embd.weight", f"{NEXTN}fc_hidden.weight")


def layout_d() -> FakeFile:
    names = exit_names("mtp.mixer_")
    names[f"{NEXTN}enorm.weight"] = "mtp.pre_norm_embd.weight"
    names[f"{NEXTN}hnorm.weight"] = "mtp.pre_norm_hidden.weight"
    return split_joined(sidecar(names), "mtp.fc_embd.weight", "mtp.fc_hidden.weight")


def plain_head() -> FakeFile:
    fake = sidecar({})
    for name in ("token_embd.weight", "output.weight"):
        fake.tensors[name] = model_file("full").tensors[name]
    return fake


def with_ratio_zero() -> FakeFile:
    fake = sidecar({})
    fake.metadata["qwen4exp.attention.compress_ratios"] = [0, 0, 0, 4, 0]
    return fake


def assert_golden(model: Model) -> None:
    golden = arrays("full-mtp")
    assert model.mtp is not None
    entry = DraftEntry(
        model.new_sequence(),
        golden["in_streams"],
        golden["next_tokens"].tolist(),
        LogitsWanted.ALL,
    )
    logits = model.mtp.forward([entry]).logits
    assert np.abs(logits - golden["mtp_logits"]).max() < bound("reference")


def load_with_sidecar(fake: FakeFile) -> Model:
    limits = golden_limits()
    ops = make_golden_ops("reference", limits)
    return Model.load(model_file("full"), ops, limits, mtp_file=fake)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [layout_b, layout_b_shared_head_norm, layout_c, layout_d, plain_head, with_ratio_zero],
    ids=lambda make: make.__name__,
)
def test_every_layout_gives_the_golden_logits(make):
    assert_golden(load_with_sidecar(make()))


def test_a_head_inside_of_the_model_file_gives_the_golden_logits():
    trunk, head = model_file("full"), model_file("full-mtp")
    metadata = dict(trunk.metadata)
    metadata["qwen4exp.block_count"] = 5
    metadata["qwen4exp.nextn_predict_layers"] = 1
    fake = FakeFile(metadata, dict(trunk.tensors) | dict(head.tensors))
    limits = golden_limits()
    model = Model.load(fake, make_golden_ops("reference", limits), limits)  # type: ignore[arg-type]
    assert model.config.num_layers == NUM_TRUNK_LAYERS
    assert_golden(model)


def test_the_output_mixer_of_a_model_file_is_not_taken_for_its_heads():
    trunk, head = model_file("full"), model_file("full-mtp")
    metadata = dict(trunk.metadata) | {
        "qwen4exp.block_count": 5,
        "qwen4exp.nextn_predict_layers": 1,
    }
    tensors = {n: t for n, t in head.tensors.items() if "hc_head" not in n}
    fake = FakeFile(metadata, dict(trunk.tensors) | tensors)
    limits = golden_limits()
    with pytest.raises(ModelFileError, match="lacks its exit norm"):
        Model.load(fake, make_golden_ops("reference", limits), limits)  # type: ignore[arg-type]


def without(name: str) -> FakeFile:
    fake = sidecar({})
    del fake.tensors[name]
    return fake


def with_key(key: str, value: object) -> FakeFile:
    fake = sidecar({})
    fake.metadata[key] = value
    return fake


def with_tensor(name: str) -> FakeFile:
    fake = sidecar({})
    fake.tensors[name] = fake.tensors[f"{NEXTN}enorm.weight"]
    return fake


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (lambda: without(f"{NEXTN}eh_proj.weight"), "lacks its embedding projection"),
        (lambda: without(f"blk.{NUM_TRUNK_LAYERS}.attn_q.weight"), "lacks the tensor blk.4.attn_q"),
        (lambda: with_key("qwen4exp.block_count", 4), "another model .trunk layers: 3 for 4"),
        (lambda: with_key("qwen4exp.embedding_length", 64), "another model .hidden size"),
        (lambda: with_key("general.architecture", "qwen4exp-mtp"), "architecture is"),
        (lambda: with_tensor("mtp.layers.0.mlp.gate.weight"), "checkpoint's own layout"),
        (lambda: with_tensor(f"{NEXTN}d2t"), "reduced vocabulary"),
        (lambda: with_tensor("output.weight"), "output.weight has the shape"),
    ],
)
def test_heads_that_do_not_fit_are_refused_with_the_reason(fake, reason):
    with pytest.raises(ModelFileError, match=reason):
        load_with_sidecar(fake())
