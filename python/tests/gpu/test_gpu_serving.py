"""The backend of vLLM in CUDA graphs that are replayed over changing metadata.

Where vLLM is not installed, classes of the same names stand in for those that it inherits.
"""

import enum
import random
import sys
import types
from typing import Generic, TypeVar

import pytest

torch = pytest.importorskip("torch")

HEADS, HEADS_KV, DIM, BLOCK, BLOCKS, MAX_REQUESTS, MAX_LENGTH = 8, 2, 128, 16, 400, 16, 512


def write_rows(key, value, k, v, slots, *scales):
    """vLLM's kernel, by PyTorch; what has no slot goes to block 0, which vLLM gives nobody."""
    count, slots = slots.shape[0], slots.clamp(min=0)
    for pages, rows in ((k, key), (v, value)):
        pages[slots // pages.shape[1], slots % pages.shape[1]] = rows[:count]


def stand_in():
    """Modules with what flashcore.serving.vllm takes of vLLM."""
    kind = TypeVar("kind")

    class Builder(Generic[kind]):
        def __init__(self, *arguments):
            pass

    class Implementation(Generic[kind]):
        pass

    backend = types.ModuleType("vllm.v1.attention.backend")
    backend.AttentionBackend, backend.AttentionImpl = object, Implementation
    backend.AttentionMetadataBuilder = Builder
    backend.AttentionCGSupport = enum.Enum("AttentionCGSupport", "ALWAYS NEVER")
    backend.AttentionType = types.SimpleNamespace(
        DECODER="decoder", ENCODER="encoder", ENCODER_ONLY="encoder_only", ENCODER_DECODER="both"
    )
    backend.CommonAttentionMetadata = types.SimpleNamespace
    backend.MultipleOf = int
    operators = types.ModuleType("vllm._custom_ops")
    operators.reshape_and_cache_flash = write_rows
    root = types.ModuleType("vllm")
    root.envs = types.SimpleNamespace(VLLM_BATCH_INVARIANT=False)
    return {
        "vllm": root, "vllm.v1": types.ModuleType("vllm.v1"), "vllm._custom_ops": operators,
        "vllm.v1.attention": types.ModuleType("vllm.v1.attention"),
        "vllm.v1.attention.backend": backend,
    }  # fmt: skip


@pytest.fixture(scope="module")
def ours():
    try:
        import vllm  # noqa: F401

        added = {}
    except ImportError:
        added = stand_in()
        sys.modules.update(added)
    from flashcore.serving import vllm as backend

    yield backend
    for name in (*added, "flashcore.serving.vllm"):
        sys.modules.pop(name, None)


class Step:
    """Tensors that a graph reads, filled anew before each replay."""

    def __init__(self, tokens):
        def whole(*shape, dtype=torch.int32):
            return torch.zeros(shape, dtype=dtype, device="cuda")

        self.starts, self.lengths = whole(MAX_REQUESTS + 1), whole(MAX_REQUESTS)
        self.table = whole(MAX_REQUESTS, MAX_LENGTH // BLOCK)
        self.slots = whole(tokens, dtype=torch.int64)
        self.q, self.k, self.v = (
            torch.zeros(tokens, heads, DIM, dtype=torch.bfloat16, device="cuda")
            for heads in (HEADS, HEADS_KV, HEADS_KV)
        )
        self.out = torch.zeros_like(self.q)

    def fill(self, pages, before, counts):
        starts, slots, table = [0], [], torch.full(self.table.shape, 1 << 20, dtype=torch.int32)
        for row, (blocks, first, count) in enumerate(zip(pages, before, counts)):
            starts.append(starts[-1] + count)
            table[row, : len(blocks)] = torch.tensor(blocks)
            slots += [blocks[i // BLOCK] * BLOCK + i % BLOCK for i in range(first, first + count)]
        total = starts[-1]
        starts += [total] * (MAX_REQUESTS + 1 - len(starts))
        lengths = [first + count for first, count in zip(before, counts)]
        self.starts.copy_(torch.tensor(starts))
        self.lengths.copy_(torch.tensor(lengths + [0] * (MAX_REQUESTS - len(lengths))))
        self.table.copy_(table)
        self.slots.copy_(torch.tensor(slots + [-1] * (len(self.slots) - total)))
        for rows in (self.q, self.k, self.v):
            rows.normal_()
        self.out.fill_(torch.nan)
        return starts


def check(step, starts, caches, pages, before, counts):
    for row, (first, count) in enumerate(zip(before, counts)):
        end = first + count
        places = torch.tensor([pages[row][i // BLOCK] * BLOCK + i % BLOCK for i in range(end)], device="cuda")
        k, v = (c.transpose(1, 2).reshape(-1, HEADS_KV, DIM)[places].float() for c in caches)
        rows = slice(starts[row], starts[row] + count)
        mask = torch.ones(count, end, device="cuda").tril(end - count) != 0
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (step.q[rows].float(), k, v)), mask, enable_gqa=True
        )[0].transpose(0, 1)
        torch.testing.assert_close(step.out[rows].float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("tokens, is_mixed", [(MAX_REQUESTS, False), (256, True)])
def test_a_graph_is_replayed_over_changing_metadata(ours, tokens, is_mixed):
    rng = random.Random(tokens)
    cache = torch.full(
        (BLOCKS, HEADS_KV, BLOCK, 2 * DIM), torch.nan, dtype=torch.bfloat16, device="cuda"
    )
    caches = cache.split(DIM, dim=-1)
    impl = ours.Implementation(HEADS, DIM, DIM**-0.5, HEADS_KV)
    builder = ours.MetadataBuilder(
        None, ["layer"], types.SimpleNamespace(model_config=None), torch.device("cuda")
    )
    layer = types.SimpleNamespace(
        _k_scale=torch.ones((), device="cuda"), _v_scale=torch.ones((), device="cuda")
    )
    step = Step(tokens)
    common = types.SimpleNamespace(
        num_actual_tokens=tokens, max_query_len=tokens if is_mixed else 1, causal=True,
        query_start_loc=step.starts, seq_lens=step.lengths, block_table_tensor=step.table,
        mm_req_doc_ranges=None,
    )  # fmt: skip
    metadata = builder.build(0, common)

    def run():
        impl.do_kv_cache_update(layer, step.k, step.v, cache, step.slots)
        impl.forward(layer, step.q, step.k, step.v, cache, metadata, step.out)

    free = list(range(1, BLOCKS))
    rng.shuffle(free)
    pages, before = [], []
    step.fill([], [], [])
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for number in range(30):
        while len(pages) > 2 and rng.random() < 0.3:  # one ends
            row = rng.randrange(len(pages))
            free += pages.pop(row)
            before.pop(row)
        counts = [1] * len(pages)
        while len(pages) < MAX_REQUESTS and rng.random() < 0.7:
            first = 0
            if not is_mixed:  # whose prompt another graph has computed
                first = rng.randint(1, 300)
            room = tokens - sum(counts) - (MAX_REQUESTS - len(counts))
            if is_mixed and room < 1:
                break
            pages.append([])
            before.append(first)
            counts.append(rng.randint(1, min(room, 100)) if is_mixed else 1)
        for row, (first, count) in enumerate(zip(before, counts)):
            while len(pages[row]) * BLOCK < first + count:
                pages[row].append(free.pop())
                if first:
                    cache[pages[row][-1]].normal_()
        starts = step.fill(pages, before, counts)
        graph.replay()
        check(step, starts, caches, pages, before, counts)
        before = [first + count for first, count in zip(before, counts)]
        for row in reversed(range(len(pages))):
            if before[row] > MAX_LENGTH - 100:
                free += pages.pop(row)
                before.pop(row)
