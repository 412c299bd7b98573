"""The backend of vLLM, with vLLM's own cache manager and metadata, on the emulator.

Requests come, share prefixes, are preempted and end as vLLM's scheduler has them; each step is
one call for a batch of prompts and single queries, whose buffers are longer than it.
"""

import random
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from vllm.sampling_params import SamplingParams
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

from flashcore.serving import register_vllm
from flashcore.serving import vllm as ours

HEADS, HEADS_KV, DIM, VOCABULARY = 4, 2, 64, 50
BUDGET, MAX_REQUESTS, MAX_LENGTH = 40, 6, 192


def hash_of(value):
    return repr(value).encode()


class Engine:
    """What a scheduler does with vLLM's KVCacheManager, and the tensors of one layer."""

    def __init__(self, block_size, blocks, seed, dtype=torch.float16):
        init_none_hash(hash_of)
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.dtype, self.block_size = dtype, block_size
        self.spec = FullAttentionSpec(
            block_size=block_size, num_kv_heads=HEADS_KV, head_size=DIM, dtype=dtype
        )
        config = KVCacheConfig(blocks, [], [KVCacheGroupSpec(["layer"], self.spec)])
        self.manager = KVCacheManager(config, MAX_LENGTH, block_size, block_size)
        self.hasher = get_request_block_hasher(block_size, hash_of)
        # Blocks that nobody wrote hold anything.
        self.cache = torch.full((blocks, HEADS_KV, block_size, 2 * DIM), torch.nan, dtype=dtype)
        self.tables = {
            name: torch.randn(VOCABULARY, heads, DIM)
            for name, heads in (("q", HEADS), ("k", HEADS_KV), ("v", HEADS_KV))
        }
        self.places = torch.randn(MAX_LENGTH, 1, DIM) / 2
        self.waiting, self.running = [], []
        self.preempted = self.hits = self.count = 0

    def add(self):
        shared = [list(range(start, start + 34)) for start in (0, 7)]
        tokens = self.rng.choice([[], *shared]) + self.rng.choices(
            range(VOCABULARY), k=self.rng.randint(1, 60)
        )
        params = SamplingParams(max_tokens=self.rng.randint(1, 25))
        self.waiting.append(
            Request(str(self.count), tokens, params, None, block_hasher=self.hasher)
        )
        self.count += 1

    def rows(self, name, tokens, first):
        places = self.places[first : first + len(tokens)]
        return (self.tables[name][tokens] + (0 if name == "v" else places)).to(self.dtype)

    def schedule(self):
        """[(request, how many tokens)] of a step."""
        budget, batch, before = BUDGET, [], self.preempted
        for request in list(self.running):
            if request not in self.running:  # preempted for one before it
                continue
            count = min(request.num_tokens - request.num_computed_tokens, budget)
            while count and self.manager.allocate_slots(request, count) is None:
                last = self.running.pop()
                batch = [each for each in batch if each[0] is not last]
                self.manager.free(last)
                last.num_computed_tokens = 0
                self.waiting.insert(0, last)
                self.preempted += 1
                if last is request:
                    count = 0
            if count:
                batch.append((request, count))
                budget -= count
        # None comes in a step that sent one away.
        while self.waiting and budget and len(self.running) < MAX_REQUESTS and before == self.preempted:
            request = self.waiting[0]
            blocks, hit, *_ = self.manager.get_computed_blocks(request)
            count = min(request.num_tokens - hit, budget)
            if self.manager.allocate_slots(request, count, hit, blocks) is None:
                break
            self.hits += hit
            request.num_computed_tokens = hit
            self.running.append(self.waiting.pop(0))
            batch.append((request, count))
            budget -= count
        return batch

    def finish(self, batch):
        for request, count in batch:
            request.num_computed_tokens += count
            if request.num_computed_tokens < request.num_tokens:
                continue
            if request.num_output_tokens >= request.max_tokens:
                self.running.remove(request)
                self.manager.free(request)
            else:
                request.append_output_token_ids(self.rng.randrange(VOCABULARY))


def metadata_of(engine, batch, causal, ranges=None):
    """vLLM's metadata of a step, filled up to a whole number of tokens and requests as for CUDA
    graphs."""
    tokens = sum(count for _, count in batch)
    padded, requests = -(-tokens // 8) * 8, MAX_REQUESTS
    starts = [0]
    for _, count in batch:
        starts.append(starts[-1] + count)
    starts += [tokens] * (requests + 1 - len(starts))
    lengths = [request.num_computed_tokens + count for request, count in batch]
    lengths += [0] * (requests - len(lengths))
    table = torch.full((requests, -(-MAX_LENGTH // engine.block_size)), -7, dtype=torch.int32)
    slots = []
    for row, (request, count) in enumerate(batch):
        (blocks,) = engine.manager.get_block_ids(request.request_id)
        table[row, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        first = request.num_computed_tokens
        for place in range(first, first + count):
            block, offset = divmod(place, engine.block_size)
            slots.append(blocks[block] * engine.block_size + offset)
    slots += [-1] * (padded - tokens)
    of_q = torch.tensor(starts, dtype=torch.int32)
    used = torch.tensor(lengths, dtype=torch.int32)
    return CommonAttentionMetadata(
        query_start_loc=of_q, query_start_loc_cpu=of_q, seq_lens=used, num_reqs=requests,
        num_actual_tokens=padded, max_query_len=max(count for _, count in batch),
        max_seq_len=MAX_LENGTH, block_table_tensor=table, slot_mapping=torch.tensor(slots),
        causal=causal, seq_lens_cpu_upper_bound=used, mm_req_doc_ranges=ranges,
    )  # fmt: skip


def expected_of(engine, request, count, layer, causal, ranges=()):
    """(count, heads, dim), by the formula in float64."""
    first, end = request.num_computed_tokens, request.num_computed_tokens + count
    tokens = list(request.all_token_ids)[:end]
    q = engine.rows("q", tokens, 0)[first:].double()
    k, v = (engine.rows(name, tokens, 0).double().repeat_interleave(2, 1) for name in "kv")
    scores = torch.einsum("qhd,khd->hqk", q, k) * layer["scale"]
    if layer.get("logits_soft_cap"):
        scores = layer["logits_soft_cap"] * torch.tanh(scores / layer["logits_soft_cap"])
    i, j = torch.arange(first, end)[:, None], torch.arange(end)[None, :]
    if layer.get("alibi_slopes"):
        slopes = torch.tensor(layer["alibi_slopes"], dtype=torch.float64)[:, None, None]
        scores = scores - slopes * (i - j).abs()
    seen = (j <= i) if causal else torch.ones_like(i - j, dtype=torch.bool)
    if layer.get("sliding_window"):
        seen &= j > i - layer["sliding_window"]
        seen &= j < i + layer["sliding_window"]
    for start, last in ranges:
        seen |= (i >= start) & (i <= last) & (j >= start) & (j <= last)
    scores = scores.masked_fill(~seen, -torch.inf)
    if layer.get("sinks") is not None:
        sink = layer["sinks"].double()[:, None, None].expand(-1, count, 1)
        scores = torch.cat([scores, sink], -1)
        v = torch.cat([v, torch.zeros_like(v[:1])])
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def run_steps(steps, layer, block_size=16, blocks=24, causal=True, ranges=(), seed=1):
    engine = Engine(block_size, blocks, seed)
    impl = ours.Backend.get_impl_cls()(
        num_heads=HEADS, head_size=DIM, num_kv_heads=HEADS_KV, **layer
    )
    impl.process_weights_after_loading(torch.float16)
    config = SimpleNamespace(
        model_config=SimpleNamespace(is_mm_prefix_lm=bool(ranges)),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=2 * BUDGET),
    )
    builder = ours.Backend.get_builder_cls()(engine.spec, ["layer"], config, torch.device("cpu"))
    module = SimpleNamespace(_k_scale=torch.ones(()), _v_scale=torch.ones(()))
    mixed = 0
    for step in range(steps):
        while len(engine.waiting) + len(engine.running) < MAX_REQUESTS + 1:
            engine.add()
        batch = engine.schedule()
        assert batch
        mixed += len({count > 1 for _, count in batch}) > 1
        of_rows = {row: list(ranges) for row in range(len(batch))} if ranges else None
        common = metadata_of(engine, batch, causal, of_rows)
        metadata = builder.build(0, common)
        parts = {name: [] for name in "qkv"}
        for request, count in batch:
            first = request.num_computed_tokens
            tokens = list(request.all_token_ids)[first : first + count]
            for name, rows in parts.items():
                rows.append(engine.rows(name, tokens, first))
        rest = common.num_actual_tokens - sum(count for _, count in batch)
        q, k, v = (
            torch.cat([*rows, torch.full((rest + 8, *rows[0].shape[1:]), torch.nan, dtype=torch.float16)])
            for rows in parts.values()
        )
        impl.do_kv_cache_update(module, k, v, engine.cache, common.slot_mapping)
        output = torch.full((q.shape[0], HEADS, DIM), torch.nan, dtype=torch.float16)
        assert impl.forward(module, q, k, v, engine.cache, metadata, output) is output
        place = 0
        for request, count in batch:
            expected = expected_of(engine, request, count, layer, causal, ranges)
            torch.testing.assert_close(
                output[place : place + count].double(), expected, atol=4e-3, rtol=4e-3
            )
            place += count
        engine.finish(batch)
    return engine, mixed


def test_fifty_steps_with_preemption_and_prefix_hits():
    engine, mixed = run_steps(50, {"scale": DIM**-0.5}, blocks=16)
    assert engine.preempted and engine.hits and mixed > 10


@pytest.mark.parametrize(
    "layer, options",
    [
        ({"sliding_window": 20}, {}),
        ({"sliding_window": 20}, {"causal": False}),
        ({}, {"causal": False}),
        ({"logits_soft_cap": 5.0, "sinks": torch.linspace(-1, 2, HEADS)}, {}),
        ({"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]}, {}),
        ({}, {"block_size": 48, "blocks": 9}),
        ({}, {"ranges": ((3, 17), (30, 33))}),
        ({"sliding_window": 9}, {"ranges": ((3, 17),)}),
    ],
)
def test_layers(layer, options):
    run_steps(8, {"scale": 0.2, **layer}, **options)


def test_encoder_has_no_cache():
    impl = ours.Implementation(
        HEADS, DIM, 0.125, HEADS_KV, sliding_window=6, attn_type=AttentionType.ENCODER_ONLY
    )
    q, k, v = (torch.randn(30, heads, DIM).half() for heads in (HEADS, HEADS_KV, HEADS_KV))
    metadata = ours.Metadata(24, 16, torch.tensor([0, 8, 24], dtype=torch.int32), None, None, False)
    output = torch.zeros(30, HEADS, DIM, dtype=torch.float16)
    impl.forward(None, q, k, v, torch.empty(0), metadata, output)
    for first, last in ((0, 8), (8, 24)):
        rows = slice(first, last)
        i = torch.arange(last - first)
        mask = (i[:, None] - i[None, :]).abs() < 6
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x[None, rows].transpose(1, 2).float() for x in (q, k, v)), mask, enable_gqa=True
        )
        torch.testing.assert_close(
            output[rows].float(), expected[0].transpose(0, 1), atol=4e-3, rtol=4e-3
        )
    assert not output[24:].any()


def test_registration():
    register_vllm()
    assert AttentionBackendEnum.CUSTOM.get_class() is ours.Backend
    register_vllm()  # in each process, and once more in the first
    AttentionBackendEnum.CUSTOM.clear_override()
    from vllm.v1.attention.backends.registry import register_backend

    register_backend(AttentionBackendEnum.CUSTOM, "collections.OrderedDict")
    register_vllm()  # never over another
    assert AttentionBackendEnum.CUSTOM.get_class().__name__ == "OrderedDict"
    AttentionBackendEnum.CUSTOM.clear_override()


def test_what_vllm_asks_of_a_backend():
    """Each method and argument that vLLM's class has, by the names that it calls them."""
    import inspect

    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention import backend

    for here, there in (
        (ours.MetadataBuilder.build, backend.AttentionMetadataBuilder.build),
        (ours.MetadataBuilder.update_block_table, backend.AttentionMetadataBuilder.update_block_table),
        (ours.Implementation.__init__, backend.AttentionImpl.__init__),
        (ours.Implementation.forward, backend.AttentionImpl.forward),
    ):
        names = [name for name in inspect.signature(there).parameters if name != "kwargs"]
        assert list(inspect.signature(here).parameters)[: len(names)] == names
    asked = {
        "head_size": 128, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": 16,
        "use_mla": False, "has_sink": True, "use_sparse": False, "use_mm_prefix": True,
        "use_per_head_quant_scales": False, "device_capability": DeviceCapability(8, 9),
        "attn_type": AttentionType.DECODER, "has_sliding_window": True, "use_non_causal": True,
        "use_batch_invariant": True, "use_kv_connector": True,
    }  # fmt: skip
    assert ours.Backend.validate_configuration(**asked) == []
    for change in (
        {"head_size": 264}, {"kv_cache_dtype": "fp8"}, {"use_dcp": True}, {"dtype": torch.float32},
    ):  # fmt: skip
        assert ours.Backend.validate_configuration(**{**asked, **change}), change


def test_what_it_does_not_compute_is_named():
    from flashcore import UnsupportedError

    with pytest.raises(UnsupportedError, match="kv_cache_dtype of auto, .* got 'fp8'"):
        ours.Implementation(HEADS, DIM, 0.1, HEADS_KV, kv_cache_dtype="fp8")
    builder = ours.MetadataBuilder(
        None, [], SimpleNamespace(model_config=SimpleNamespace()), torch.device("cpu")
    )
    each = SimpleNamespace(causal=torch.ones(2, dtype=torch.int32))
    with pytest.raises(UnsupportedError, match="causal of True or False"):
        builder.build(0, each)
    impl = ours.Implementation(HEADS, DIM, 0.1, HEADS_KV)
    output = torch.ones(2, HEADS, DIM)
    assert not impl.forward(None, None, None, None, None, None, output).any()
    with pytest.raises(UnsupportedError, match="expects output_scale=None"):
        impl.forward(None, None, None, None, None, None, output, output_scale=output)
