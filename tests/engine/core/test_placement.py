from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.core.config import BUNDLED_MODEL, KvType, NgramMode, RunConfig
from engine.core.errors import ConfigError, ResourceError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.machine import Machine
from engine.core.model_numbers import numbers_of_header
from engine.core.model_sizes import (
    MAX_WINDOW,
    checkpoint_bytes,
    kv_page_bytes,
    model_config_of,
    state_bytes,
    vocabulary_bytes,
)
from engine.core.placement import Verdict, place_on_cpu, require_private_memory
from engine.core.sizes import size_in_words
from engine.core.weight_groups import TABLE_PART, Tier, read_every_token

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
GIB = 1 << 30


def machine(total_gib: float = 32, free_gib: float = 24) -> Machine:
    return Machine(
        system="Linux",
        cpu_name="a processor",
        physical_cores=8,
        logical_cores=16,
        ram_total_bytes=int(total_gib * GIB),
        ram_available_bytes=int(free_gib * GIB),
        swap_total_bytes=0,
    )


@pytest.fixture(scope="module")
def header() -> ModelHeader:
    return read_model_header(GOLDEN / "full.gguf")


def test_every_byte_of_the_file_is_placed_once(header: ModelHeader) -> None:
    placement = place_on_cpu(machine(), header, RunConfig())
    mapped = sum(part.num_bytes for part in placement.parts if part.tier is not Tier.RAM)
    mapped += sum(part.num_bytes for part in placement.parts if part.name == TABLE_PART)
    assert mapped == sum(info.num_bytes for _shard, info in header.tensors.values())


def test_a_draft_head_in_a_file_of_its_own_counts_with_its_weights_and_pages(
    header: ModelHeader,
) -> None:
    head = read_model_header(GOLDEN / "full-mtp.gguf")
    config = RunConfig(session_cache_mib=0)
    without, placed = (
        {part.name: part for part in place_on_cpu(machine(), header, config, draft_head=one).parts}
        for one in (None, head)
    )
    assert "MTP layer" not in without
    assert placed["MTP layer"].num_bytes == sum(info.num_bytes for _, info in head.tensors.values())
    # One attention layer in the model, and the head's.
    assert placed["KV pages"].num_bytes == 2 * without["KV pages"].num_bytes
    assert {n: p for n, p in placed.items() if n not in {"MTP layer", "KV pages"}} == {
        n: p for n, p in without.items() if n != "KV pages"
    }


def test_a_head_from_another_file_takes_the_place_of_the_models_own(header: ModelHeader) -> None:
    bundled = read_model_header(BUNDLED_MODEL)
    own = {part.name: part for part in place_on_cpu(machine(), bundled, RunConfig()).parts}
    head = dataclasses.replace(
        bundled,
        tensors={
            name: one
            for name, one in bundled.tensors.items()
            if name.startswith("blk.4.nextn.") or name in {"output.weight", "token_embd.weight"}
        },
    )
    placed = place_on_cpu(machine(), bundled, RunConfig(), draft_head=head)
    (layer,) = [part for part in placed.parts if part.name == "MTP layer"]
    expected = sum(i.num_bytes for n, (_, i) in head.tensors.items() if n != "token_embd.weight")
    assert layer.num_bytes == expected != own["MTP layer"].num_bytes
    names = read_every_token(bundled, has_other_head=True)
    assert "output.weight" in names
    assert not [name for name in names if name.startswith("blk.4.")]


def test_the_sums_are_those_of_the_parts(header: ModelHeader) -> None:
    placement = place_on_cpu(machine(), header, RunConfig())
    private = sum(part.num_bytes for part in placement.parts if part.tier is Tier.RAM)
    in_ram = sum(part.num_bytes for part in placement.parts if part.tier is not Tier.DISK)
    assert (placement.private_bytes, placement.needed_bytes) == (private, in_ram)


def test_a_page_counts_keys_values_raw_and_pooled_index_keys(header: ModelHeader) -> None:
    model = model_config_of(header)
    per_token = 2 * model.num_kv_heads * model.head_dim + model.index_dim
    pooled = model.index_dim * 256 // model.block_ratio
    layers = 1  # L L L A
    assert kv_page_bytes(model, KvType.F16, 256) == 2 * layers * (256 * per_token + pooled)
    assert kv_page_bytes(model, KvType.F32, 256) == 2 * kv_page_bytes(model, KvType.F16, 256)


def test_the_real_model_needs_the_bytes_of_the_specification(header: ModelHeader) -> None:
    """Spec section 6: 113,246,208 bytes of delta state for 36 layers, 27,648 bytes of KV a token."""
    real = dataclasses.replace(
        model_config_of(header),
        layer_kinds=tuple(
            model_config_of(header).layer_kinds[3 if (i + 1) % 4 == 0 else 0] for i in range(48)
        ),
        num_kv_heads=2,
        head_dim=256,
        index_dim=128,
        block_ratio=4,
        delta_num_k_heads=16,
        delta_num_v_heads=48,
        delta_head_dim=128,
        delta_conv_kernel=4,
        ple=None,
    )
    pooled_and_raw_token = 24_576 + 3_072 + 768
    assert kv_page_bytes(real, KvType.F16, 256) == 256 * pooled_and_raw_token
    window = 36 * 4 * MAX_WINDOW * (10_240 + 16 * 128 + 48 * 128 + 96)
    assert state_bytes(real) == 2 * (113_246_208 + 4_423_680) + window


@pytest.mark.parametrize(
    ("total", "free", "verdict"),
    [(32.0, 24.0, Verdict.FITS), (1.3, 0.05, Verdict.TIGHT), (0.9, 0.05, Verdict.DOES_NOT_FIT)],
)
def test_the_verdict_follows_memory_and_says_the_sizes(
    header: ModelHeader, total: float, free: float, verdict: Verdict
) -> None:
    placement = place_on_cpu(machine(total, free), header, RunConfig(session_cache_mib=0))
    assert placement.verdict is verdict
    assert f"{size_in_words(placement.needed_bytes)} needed" in placement.reasons[0]
    assert 216 < placement.needed_bytes / (1 << 20) < 217
    assert ("1.0 GiB is left to the system" in placement.reasons[0]) == (total < 1)


def test_context_defaults_to_what_the_model_knows_up_to_32768(header: ModelHeader) -> None:
    assert place_on_cpu(machine(), header, RunConfig()).context == 4096
    assert place_on_cpu(machine(), header, RunConfig(context=100)).context == 100


def test_a_context_beyond_the_model_is_refused_by_name(header: ModelHeader) -> None:
    with pytest.raises(ConfigError, match=r"5000 tokens is longer than the model's 4096"):
        place_on_cpu(machine(), header, RunConfig(context=5000))


def test_pages_hold_whole_index_blocks() -> None:
    odd = read_model_header(GOLDEN / "odd.gguf")  # ratio 3
    placement = place_on_cpu(machine(), odd, RunConfig())
    assert placement.page_tokens == 255
    assert placement.kv_pages * 255 >= placement.context


def test_one_full_context_always_has_pages_and_each_other_sequence_one(
    header: ModelHeader,
) -> None:
    placement = place_on_cpu(machine(32, 0.000_1), header, RunConfig(parallel=4))
    assert placement.kv_pages == 4096 // 256 + 3
    assert any("share" in reason for reason in placement.reasons)


def test_warm_conversations_get_a_share_of_what_is_free(header: ModelHeader) -> None:
    without = place_on_cpu(machine(), header, RunConfig(session_cache_mib=0))
    assert without.session_bytes == 0
    usual = place_on_cpu(machine(), header, RunConfig())
    one = checkpoint_bytes(model_config_of(header))
    assert usual.session_bytes == 512 * one
    extra_pages = usual.kv_pages - without.kv_pages
    assert extra_pages == 4 * (4096 // 256)
    page_bytes = kv_page_bytes(model_config_of(header), KvType.F16, 256)
    assert usual.needed_bytes - without.needed_bytes == 512 * one + extra_pages * page_bytes
    short = place_on_cpu(machine(32, 0.000_1), header, RunConfig())
    assert short.session_bytes == 4 * one


def test_caches_beyond_all_memory_are_refused_before_loading(header: ModelHeader) -> None:
    small = machine(0.1, 0.05)
    placement = place_on_cpu(small, header, RunConfig())
    with pytest.raises(ResourceError, match=r"lower context .* parallel"):
        require_private_memory(placement, small)
    require_private_memory(placement, machine())


def test_a_draft_head_in_the_file_is_one_part() -> None:
    bundled = read_model_header(ROOT / "assets" / "models" / "stratum-tiny.gguf")
    placement = place_on_cpu(machine(), bundled, RunConfig())
    num_layers = model_config_of(bundled).num_layers
    expected = sum(
        info.num_bytes
        for name, (_shard, info) in bundled.tensors.items()
        if name.startswith(f"blk.{num_layers}.")
    )
    assert expected > 0
    assert {part.name: part.num_bytes for part in placement.parts}["MTP layer"] == expected


def test_a_large_vocabulary_takes_memory_of_its_own(header: ModelHeader) -> None:
    """Tokenizers and the grammars' trie: measured 356 MB in the worker with 248,320 tokens."""
    placement = place_on_cpu(machine(32.0, 24.0), header, RunConfig())
    part = next(part for part in placement.parts if part.name == "Vocabulary")
    model = model_config_of(header)
    assert part.num_bytes == vocabulary_bytes(model.vocab_size)
    assert vocabulary_bytes(248_320) > 356_000_000


def test_experts_beyond_memory_are_tight_while_most_of_them_fit(header: ModelHeader) -> None:
    """The sizes of a large model: its experts times 20,000."""
    big = _with_large_experts(header)
    config = RunConfig(session_cache_mib=0)
    expert_bytes = sum(i.num_bytes for name, (_, i) in big.tensors.items() if "_exps." in name)
    total = expert_bytes / GIB
    assert place_on_cpu(machine(total + 4, total + 3), big, config).verdict is Verdict.FITS
    tight = place_on_cpu(machine(total * 0.6 + 2, total * 0.6 + 1), big, config)
    assert tight.verdict is Verdict.TIGHT
    assert "read from the disk while it answers" in tight.reasons[0]
    assert (
        place_on_cpu(machine(total * 0.2, total * 0.2), big, config).verdict is Verdict.DOES_NOT_FIT
    )
    tiers = {part.tier: part.num_bytes for part in tight.parts if part.name == "Experts"}
    assert tiers[Tier.RAM_MAPPED] + tiers[Tier.DISK] == expert_bytes
    assert tiers[Tier.DISK] == tight.experts.disk_bytes > 0
    others = {part.tier for part in tight.parts if part.name == "Other"}
    assert others == {Tier.RAM}  # what every token reads is kept


def test_experts_that_are_to_be_kept_beyond_free_memory_are_refused_with_a_number(
    header: ModelHeader,
) -> None:
    big = _with_large_experts(header)
    expert_bytes = sum(i.num_bytes for name, (_, i) in big.tensors.items() if "_exps." in name)
    small = machine(expert_bytes / GIB, expert_bytes / 2 / GIB)
    for settings in (
        {"expert_mode": "resident"},
        {"expert_mode": "budget", "expert_ram_mib": 1 << 20},
    ):
        config = RunConfig.model_validate(settings)
        with pytest.raises(ResourceError, match=r"expert_ram_mib of at most \d+") as caught:
            require_private_memory(place_on_cpu(small, big, config), small)
        most = int(caught.value.message.rsplit(" ", 1)[1].rstrip("."))
        fitting = RunConfig.model_validate({"expert_mode": "budget", "expert_ram_mib": most})
        require_private_memory(place_on_cpu(small, big, fitting), small)


def test_a_way_out_that_is_none_is_not_offered(header: ModelHeader) -> None:
    big = _with_large_experts(header)
    config = RunConfig.model_validate({"expert_mode": "resident"})
    placed = place_on_cpu(machine(), big, config)
    caches = placed.private_bytes - placed.experts.keep_bytes
    small = machine(32, (caches + 1000) / GIB)
    with pytest.raises(ResourceError) as caught:
        require_private_memory(placed, small)
    assert caught.value.message.endswith("Close other programs, or set expert_mode to mapped.")


def test_a_table_that_memory_does_not_hold_is_refused_with_the_mode_that_works(
    header: ModelHeader,
) -> None:
    shard, table = header.tensors["per_layer_token_embd.weight"]
    large = dataclasses.replace(table, ne=(8, 1 << 28), num_bytes=16 << 28)
    big = dataclasses.replace(header, tensors={**header.tensors, table.name: (shard, large)})
    small = machine(4, 3)
    config = RunConfig(ngram_mode=NgramMode.RAM)
    with pytest.raises(ResourceError, match=r"takes 4\.0 GiB, .* set ngram_mode to direct\."):
        require_private_memory(place_on_cpu(small, big, config), small)
    direct = config.model_copy(update={"ngram_mode": NgramMode.DIRECT})
    require_private_memory(place_on_cpu(small, big, direct), small)


def test_experts_that_loading_takes_apart_are_memory_of_the_process(header: ModelHeader) -> None:
    tensors = dict(header.tensors)
    for layer in range(4):
        shard, gate = tensors.pop(f"blk.{layer}.ffn_gate_exps.weight")
        _, up = tensors.pop(f"blk.{layer}.ffn_up_exps.weight")
        columns, width, count = gate.ne
        name = f"blk.{layer}.ffn_gate_up_exps.weight"
        tensors[name] = (
            shard,
            dataclasses.replace(
                gate,
                name=name,
                ne=(columns, 2 * width, count),
                num_bytes=gate.num_bytes + up.num_bytes,
            ),
        )
    fused = dataclasses.replace(header, tensors=tensors)
    apart, joined = (place_on_cpu(machine(), one, RunConfig()) for one in (header, fused))
    copied = sum(info.num_bytes for name, (_, info) in tensors.items() if "gate_up_exps" in name)
    assert joined.needed_bytes == apart.needed_bytes
    assert joined.private_bytes - apart.private_bytes == copied > 0
    assert numbers_of_header(fused).expert_bytes == numbers_of_header(header).expert_bytes


def _with_large_experts(header: ModelHeader) -> ModelHeader:
    tensors = {
        name: (
            shard,
            dataclasses.replace(
                info, num_bytes=info.num_bytes * (20_000 if "_exps." in name else 1)
            ),
        )
        for name, (shard, info) in header.tensors.items()
    }
    return dataclasses.replace(header, tensors=tensors)
