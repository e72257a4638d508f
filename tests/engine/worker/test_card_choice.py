"""Which cards compute: the setting against what a PC has, and loading on several of them."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from engine.core.config import OpsName, RunConfig
from engine.core.errors import ConfigError, ResourceError
from engine.core.gguf_header import read_model_header
from engine.core.gpu import Gpu, GpuReport
from engine.core.model_numbers import numbers_of_header
from engine.core.split_numbers import SplitInput
from engine.decode.generate import generate
from engine.device.base import Device, DeviceError, DeviceMemoryError
from engine.ops.cuda_settings import CardUse, CudaSettings
from engine.ops.cuda_split import SplitOps
from engine.worker import card_choice, card_loading
from engine.worker.card import reserve_of
from engine.worker.card_choice import Card, cards_of, wanted_gpus
from engine.worker.card_division import card_uses, divide, log_division
from engine.worker.client import REPOSITORY
from engine.worker.loading import LoadedModel, load_model
from engine.worker.messages import SamplingParams, Start
from tests.support.drafted_runs import answers_of, named_drafting
from tests.support.golden import GOLDEN
from tests.support.plain_cards import GIB, found, gpu, plain_card, stand_in
from tests.support.plain_device import PlainDevice, PlainStream

MODEL = GOLDEN / "full.gguf"  # four layers
GREEDY = SamplingParams(temperature=0)
HOST = 40e9  # bytes per second
TWO = (gpu(0, name="Large"), gpu(1, name="Small"))


def config(gpus: object = "auto", ops: OpsName = OpsName.CUDA, **changes: object) -> RunConfig:
    given = {"vram_reserve_mib": 0, "prompt_chunk": 32} | changes
    return RunConfig(model=MODEL, context=64, ops=ops, gpus=gpus, **given)


def generated(loaded: LoadedModel) -> list[int]:
    generation = generate(loaded.model, [5, 6, 7], GREEDY, 8, [], loaded.limits)
    return [token.token_id for token in generation]


def answer(of: RunConfig) -> list[int]:
    loaded = load_model(of)
    try:
        return generated(loaded)
    finally:
        loaded.close()


def large_model(**changes: int) -> SplitInput:
    """About the model that all this is made for: 48 layers, 60 GB of experts."""
    numbers = dataclasses.replace(
        numbers_of_header(read_model_header(MODEL), RunConfig(model=MODEL)),
        expert_bytes=60 * GIB,
        num_experts=48 * 512,
        experts_used=48 * 10,
        dense_bytes=4 * GIB,
        mtp_bytes=GIB,
        kv_token_bytes=20_000,
        kv_pooled_token_bytes=500,
        state_bytes=100 << 20,
        card_row_bytes=300_000,
        num_layers=48,
    )
    given = {"rows": 512, "context": 32768, "num_tokens": 65536, "parallel": 2} | changes
    return SplitInput(numbers, GIB // 2, **given)


def cards(*gpus: Gpu) -> list[Card]:
    return [Card(number, one) for number, one in enumerate(gpus)]


def layers(uses: Iterable[CardUse]) -> dict[int, int]:
    return {use.index: use.num_layers for use in uses}


def choose(
    of: RunConfig,
    model: SplitInput,
    all_cards: list[Card],
    settings: CudaSettings | None = None,
) -> tuple[CardUse, ...]:
    division = divide(of, model, all_cards, HOST)
    log_division(division)
    return card_uses(
        *(model, division),
        lambda one: dataclasses.replace(
            settings or CudaSettings(), reserve_bytes=reserve_of(of, one)
        ),
    )


# -- what the setting means ------------------------------------------------------------------------


def test_auto_means_all_cards_and_names_mean_these_in_their_order():
    assert wanted_gpus(config(), TWO) == list(TWO)
    assert wanted_gpus(config([1]), TWO) == [TWO[1]]
    assert wanted_gpus(config([1, 0]), TWO) == [TWO[1], TWO[0]]
    assert wanted_gpus(config([TWO[1].uuid]), TWO) == [TWO[1]]


def test_a_card_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ConfigError) as caught:
        wanted_gpus(config([0, 2]), TWO)
    assert caught.value.message == (
        "The setting gpus names the card 2, which this PC does not have "
        "(0 is Large, GPU-0000; 1 is Small, GPU-0001)."
    )
    with pytest.raises(ConfigError, match="no NVIDIA card was found"):
        wanted_gpus(config([0]), [])
    with pytest.raises(ConfigError, match=r"Graphics card 1 \(Small\) twice"):
        wanted_gpus(config([1, TWO[1].uuid]), TWO)


def test_where_no_card_answers_packages_are_not_said_to_be_what_lacks(monkeypatch):
    def no_packages() -> None:
        raise DeviceError("The packages are not usable.", code="gpu_packages_missing")

    monkeypatch.setattr(card_choice, "found_cards", no_packages)
    monkeypatch.setattr(card_loading, "probe_gpus", GpuReport)
    with pytest.raises(DeviceError, match=r"No NVIDIA card answers on this PC; .* --ops auto"):
        load_model(config("auto", OpsName.CUDA))


def test_cards_are_told_by_their_place_on_the_bus_not_by_a_number(monkeypatch):
    # CUDA counts the faster one first, or sees the second one alone (CUDA_VISIBLE_DEVICES).
    stand_in(monkeypatch, cuda=[found(TWO[1], 0), found(TWO[0], 1)], gpus=TWO)
    seen, _ = cards_of(config(), TWO)
    assert [(card.index, card.gpu.name) for card in seen] == [(1, "Large"), (0, "Small")]
    bare = [dataclasses.replace(one, pci="") for one in TWO]
    stand_in(monkeypatch, gpus=bare)
    assert [card.index for card in cards_of(config(), bare)[0]] == [0, 1]


def test_a_card_that_cuda_does_not_see_is_left_out_with_a_sentence_and_refused_by_name(
    monkeypatch, caplog
):
    stand_in(monkeypatch, cuda=[found(TWO[1], 0)], gpus=TWO)
    seen, (said,) = cards_of(config(), TWO)
    assert [(card.index, card.gpu.name) for card in seen] == [(0, "Small")]
    assert said.startswith("Graphics card 0 (Large) is left out: ")
    assert "hidden from CUDA; look at the variable CUDA_VISIBLE_DEVICES" in said
    assert said in caplog.text
    with pytest.raises(DeviceError, match=r"Graphics card 0 \(Large\) is hidden from CUDA"):
        cards_of(config([0]), TWO[:1])


def test_a_card_that_is_too_old_is_left_out_with_a_sentence_and_refused_by_name(
    monkeypatch, caplog
):
    old = ResourceError("Small has compute capability 6.1, and 7.5 is the oldest.")
    stand_in(monkeypatch, cuda=[found(TWO[0]), found(TWO[1], problem=old)], gpus=TWO)
    seen, (said,) = cards_of(config(), TWO)
    assert [card.index for card in seen] == [0]
    assert said == "Graphics card 1 (Small) is left out: " + str(old)
    assert said in caplog.text
    with pytest.raises(ResourceError, match=r"6\.1"):
        cards_of(config([0, 1]), TWO)


# -- which layers each gets ------------------------------------------------------------------------


def test_auto_shares_the_layers_where_a_second_card_makes_answers_faster(caplog):
    caplog.set_level("INFO")
    both = cards(gpu(0, 12, "RTX 4070"), gpu(1, 24, "RTX 4090"))
    uses = choose(config(), large_model(), both)
    found_layers = layers(uses)
    assert sum(found_layers.values()) == 48
    assert found_layers[1] > found_layers[0] > 8
    assert "Graphics card 1 (RTX 4090): layers " in caplog.text


def test_auto_leaves_out_a_card_that_helps_too_little_and_says_so(caplog):
    caplog.set_level("INFO")
    slow = gpu(0, 4, "GTX 1650", memory_bytes_per_s=1e11)
    both = cards(slow, gpu(1, 80, "H100", memory_bytes_per_s=3e12))
    uses = choose(config(), large_model(), both)
    assert layers(uses) == {1: 48}
    assert (
        "Graphics card 0 (GTX 1650) is left out: answers would not be 3 % faster with it."
        in caplog.text
    )


def test_a_card_without_room_for_a_layer_is_left_out_and_says_so(caplog):
    caplog.set_level("INFO")
    taken = gpu(0, 12, "Busy", vram_free_bytes=GIB // 2)
    uses = choose(config(), large_model(), cards(taken, gpu(1, 24)))
    assert layers(uses) == {1: 48}
    assert "(Busy) is left out: it has no room for a layer of this model." in caplog.text


def test_cards_that_are_named_are_all_used_whatever_they_bring():
    both = cards(gpu(0, 8, memory_bytes_per_s=1e11), gpu(1, 80, memory_bytes_per_s=3e12))
    uses = choose(config([0, 1]), large_model(), both)
    assert set(layers(uses)) == {0, 1}


def test_named_cards_that_have_no_room_are_an_error_that_names_them():
    with pytest.raises(ResourceError, match=r"Graphics card 0 \(A\), .*1 \(B\) have no room"):
        choose(config([0, 1]), large_model(), cards(gpu(0, 1, "A"), gpu(1, 1, "B")))


def test_where_no_card_has_room_auto_tries_the_one_with_most():
    uses = choose(config(), large_model(), cards(gpu(0, 1), gpu(1, 2)))
    assert layers(uses) == {1: 48}


def test_each_card_keeps_its_own_reserve_and_sizes_are_divided(caplog):
    given = config([0, 1], vram_reserve_mib=None)
    both = cards(gpu(0, 24, has_display=True), gpu(1, 24))
    settings = CudaSettings(cache_bytes=10 * GIB, pinned_copy_bytes=48 * GIB)
    uses = choose(given, large_model(), both, settings)
    reserves = {use.index: use.settings.reserve_bytes >> 20 for use in uses}
    assert reserves == {0: 1500, 1: 700}
    caches = [use.settings.cache_bytes or 0 for use in uses]
    assert sum(caches) == pytest.approx(10 * GIB, abs=2)
    assert min(caches) > GIB
    for use in uses:
        assert use.settings.pinned_copy_bytes == use.num_layers * GIB


def test_passes_are_as_long_as_pays_with_the_memory_of_all_cards():
    both = cards(gpu(0, 24), gpu(1, 24))
    rows = [
        divide(config(prompt_chunk=chunk), large_model(), both, HOST) for chunk in (None, 2048, 100)
    ]
    assert rows[0].prompt_rows > 256
    assert [choice.prompt_rows for choice in rows[1:]] == [2048, 100]
    small = cards(gpu(0, 5), gpu(1, 5))
    tight = divide(config(prompt_chunk=8192), large_model(), small, HOST)
    assert tight.prompt_rows < 8192


def test_pages_on_a_card_are_those_that_its_layers_leave_room_for():
    model = large_model()
    for room in range(3 * GIB, 9 * GIB, GIB // 2):
        half, whole = (model.near_tokens(n, room, is_last=False) for n in (24, 48))
        assert whole <= half
        behind = model.near_tokens(24, room + GIB * 3 // 2, is_last=True)  # head and draft layer
        assert behind == pytest.approx(half, abs=64)
    rooms = [model.near_tokens(24, room, is_last=False) for room in (3 * GIB, 8 * GIB, 48 * GIB)]
    assert rooms == [0, model.context, model.num_tokens]
    step = 64 << 20
    near = [model.near_tokens(24, room, is_last=False) for room in range(0, 8 * GIB, step)]
    found = [b - a for a, b in itertools.pairwise(near) if a > 0 and b < model.context]
    each = (20_000 - 500) / 2  # of a token's keys and values half of the layers'
    assert found
    assert found == pytest.approx([step / each] * len(found), abs=2)


# -- loading ---------------------------------------------------------------------------------------


def test_two_cards_give_the_answer_of_one_and_of_the_reference(monkeypatch):
    asked = stand_in(monkeypatch, plain_card(), plain_card(GIB // 2))
    assert answer(config([0, 1])) == answer(config([0])) == answer(config(ops=OpsName.REFERENCE))
    assert [len(uses) for uses in asked] == [2, 1]
    assert sum(use.num_layers for use in asked[0]) == 4


def test_auto_takes_one_card_for_a_model_that_it_holds_whole(monkeypatch, caplog):
    caplog.set_level("INFO")
    asked = stand_in(monkeypatch, plain_card(), plain_card())
    loaded = load_model(config())
    loaded.close()
    assert [len(uses) for uses in asked] == [1]
    assert "answers would not be 3 % faster with it" in caplog.text
    assert loaded.ops_label == "cuda sm_80"


def test_the_label_tells_of_several_cards(monkeypatch):
    stand_in(monkeypatch, plain_card(), plain_card())
    loaded = load_model(config([0, 1]))
    loaded.close()
    assert loaded.ops_label == "cuda sm_80 on 2 cards"


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_drafts_and_draws_on_two_cards_are_those_of_one(monkeypatch, temperature):
    stand_in(monkeypatch, plain_card(), plain_card())
    sampling = SamplingParams(temperature=temperature, top_p=0.95, top_k=20, seed=7)
    prompts = {"a": [5, 6, 7, 5, 6, 7, 5, 6], "b": [9, 8, 9, 8, 9]}
    starts = [Start(name, tuple(ids), 14, (), sampling) for name, ids in prompts.items()]
    answers = []
    for gpus in ([0], [0, 1]):
        loaded = load_model(config(gpus, mtp_file=GOLDEN / "full-mtp.gguf"))
        try:
            assert len(loaded.ops.stages(4)) == len(gpus)
            tokens, ends = answers_of(loaded, starts, named_drafting(loaded, "both"))
        finally:
            loaded.close()
        answers.append(tokens)
        assert sum(end.timings.draft_tokens for end in ends.values()) > 0
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kv_type", ["f32", "i8"])
def test_pages_may_lie_in_host_memory_with_several_cards_too(monkeypatch, kv_type):
    monkeypatch.setattr("engine.core.model_sizes.PAGE_TOKENS", 4)
    stand_in(monkeypatch, plain_card(), plain_card())
    loaded = load_model(config([0, 1], kv_vram_tokens=5, kv_type=kv_type))
    try:
        assert isinstance(loaded.ops, SplitOps)
        pools = loaded.model.store.kv
        assert all(pool.far is not None and len(pool.keys) == 2 for pool in pools)
        tokens = generated(loaded)
    finally:
        loaded.close()
    assert tokens == answer(config(ops=OpsName.REFERENCE, kv_type=kv_type))


def test_all_pages_stay_on_cards_that_have_room(monkeypatch):
    stand_in(monkeypatch, plain_card(), plain_card())
    loaded = load_model(config([0, 1]))
    loaded.close()
    assert all(pool.far is None for pool in loaded.model.store.kv)


def broken(sentence: str = "Plain 1 does not answer any more.") -> Callable[[], Device]:
    def open_it() -> Device:
        raise DeviceError(sentence)

    return open_it


def worth_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let auto take both cards, small as the model is."""
    monkeypatch.setattr("engine.core.layer_split.LEAST_GAIN", -0.99)


def test_a_second_card_that_cannot_be_opened_is_left_out_and_the_first_goes_on(monkeypatch, caplog):
    worth_both(monkeypatch)
    asked = stand_in(monkeypatch, plain_card(), broken())
    assert answer(config(ops=OpsName.AUTO)) == answer(config(ops=OpsName.REFERENCE))
    assert [sorted(layers(uses)) for uses in asked] == [[0, 1], [0]]
    assert "Graphics card 1 (Plain 1) is left out: Plain 1 does not answer" in caplog.text


class LosableStream(PlainStream):
    def __init__(self, device: LosableDevice) -> None:
        super().__init__()
        self.device = device

    def call(self, function: Callable[[], None]) -> None:
        if self.device.is_lost:
            raise DeviceError("Plain 1 does not answer any more.", code="gpu_lost")
        super().call(function)


class LosableDevice(PlainDevice):
    is_lost = False

    def new_stream(self) -> PlainStream:
        return LosableStream(self)

    def synchronize(self) -> None:
        if self.is_lost:
            raise DeviceError("Plain 1 does not answer any more.", code="gpu_lost")


def test_a_second_card_that_is_lost_while_it_computes_is_left_out_when_loaded_again(
    monkeypatch, caplog
):
    worth_both(monkeypatch)
    second = LosableDevice()
    stand_in(monkeypatch, plain_card(), lambda: second)
    loaded = load_model(config(ops=OpsName.AUTO))
    wanted = generated(loaded)
    second.is_lost = True
    with pytest.raises(DeviceError, match="Plain 1 does not answer any more") as caught:
        generated(loaded)
    assert caught.value.code == "gpu_lost"
    loaded.close()  # as the worker does at its end; the lost card must not hinder it
    stand_in(monkeypatch, plain_card(), broken())
    assert answer(config(ops=OpsName.AUTO)) == wanted
    assert "Graphics card 1 (Plain 1) is left out" in caplog.text


def test_a_named_card_that_cannot_be_opened_is_an_error(monkeypatch):
    stand_in(monkeypatch, plain_card(), broken())
    with pytest.raises(DeviceError, match="Plain 1 does not answer any more"):
        load_model(config([0, 1], ops=OpsName.AUTO))


def test_a_second_card_whose_memory_a_game_took_meanwhile_is_left_out(monkeypatch, caplog):
    worth_both(monkeypatch)
    full = PlainDevice(total_bytes=1 << 16)
    asked = stand_in(monkeypatch, plain_card(), lambda: full)
    loaded = load_model(config(ops=OpsName.AUTO))
    try:
        assert loaded.ops.name == "cuda"
        tokens = generated(loaded)
    finally:
        loaded.close()
    assert tokens == answer(config(ops=OpsName.REFERENCE))
    assert [sorted(layers(uses)) for uses in asked] == [[0, 1], [0]]
    assert full.is_closed
    assert loaded.card_notice == "Graphics card 1 (Plain 1) is left out: The card has no room."
    assert loaded.card_notice in caplog.text


def test_a_named_card_without_room_is_an_error(monkeypatch):
    stand_in(monkeypatch, plain_card(), plain_card(1 << 16))
    with pytest.raises(DeviceMemoryError, match="no room"):
        load_model(config([0, 1], ops=OpsName.AUTO))


def test_where_every_card_fails_the_cpu_computes_and_the_person_is_told(monkeypatch, caplog):
    stand_in(monkeypatch, broken("Plain 0 is not ready."), broken())
    loaded = load_model(config(ops=OpsName.AUTO))
    loaded.close()
    assert loaded.ops.name == "host"
    assert "The graphics card is not used: " in loaded.card_notice
    assert "Plain 0 is not ready." in loaded.card_notice
    assert "Plain 1" in loaded.card_notice


def test_a_worker_without_a_card_loads_nothing_of_what_computes_on_one():
    code = "import sys, engine.worker.process; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    modules = set(done.stdout.split())
    assert "engine.worker.card_loading" in modules
    assert not modules & {"engine.ops.cuda", "engine.ops.cuda_split", "engine.device.cupy_device"}
