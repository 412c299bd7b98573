"""The backend of SGLang, with SGLang's own pools, batches and layers, on the emulator."""

import random
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sglang")

from sglang.srt.layers.attention import attention_registry
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType, RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

import flashcore
from flashcore.serving import register_sglang, sglang as ours

HEADS, HEADS_KV, DIM, CONTEXT, REQUESTS = 4, 2, 64, 192, 5


def runner_of(page_size, pages, **changes):
    """What a backend asks of a ModelRunner."""
    pool = MHATokenToKVPool(
        pages * page_size, page_size, torch.float16, HEADS_KV, DIM, 1, "cpu", False
    )
    for buffer in (pool.get_key_buffer(0), pool.get_value_buffer(0)):
        buffer.fill_(torch.nan)  # what nobody wrote may hold anything
    config = SimpleNamespace(context_len=CONTEXT, is_encoder_decoder=False)
    return SimpleNamespace(**{
        "token_to_kv_pool": pool, "page_size": page_size, "device": "cpu",
        "req_to_token_pool": ReqToTokenPool(REQUESTS, CONTEXT, "cpu", False),
        "model_config": config, "use_mla_backend": False, "kv_cache_dtype": torch.float16,
        **changes,
    })  # fmt: skip


class Engine:
    """Requests whose pages are shared from the first on, and taken from those that wait longest
    where there are no more."""

    def __init__(self, page_size, pages, seed=1):
        self.rng, self.runner = random.Random(seed), runner_of(page_size, pages)
        torch.manual_seed(seed)
        self.page_size = page_size
        self.tables = {
            name: torch.randn(40, CONTEXT, heads, DIM).half()
            for name, heads in (("q", HEADS), ("k", HEADS_KV), ("v", HEADS_KV))
        }
        self.free = list(range(1, pages + 1))
        self.prefix = self.free[:2]
        self.free = self.free[2:]
        self.requests, self.hits, self.retracted = {}, 0, 0
        self.is_prefix_there = False

    def tokens(self):
        start = list(range(2 * self.page_size)) if self.rng.random() < 0.5 else []
        return [t % 40 for t in start] + self.rng.choices(range(40), k=self.rng.randint(1, 50))

    def add(self):
        row = next(row for row in range(1, REQUESTS + 1) if row not in self.requests)
        tokens, shared = self.tokens(), 2 * self.page_size
        is_hit = self.is_prefix_there and tokens[:shared] == [t % 40 for t in range(shared)]
        is_hit = is_hit and len(tokens) > shared
        self.requests[row] = SimpleNamespace(
            tokens=tokens, pages=list(self.prefix) if is_hit else [], done=shared if is_hit else 0,
            owned=2 if is_hit else 0, left=self.rng.randint(2, 20),
        )  # fmt: skip
        self.hits += is_hit
        return row

    def reserve(self, row, count):
        """Pages for so many tokens; False where there are none."""
        request = self.requests[row]
        need = -(-count // self.page_size) - len(request.pages)
        if need > len(self.free):
            return False
        request.pages += [self.free.pop(0) for _ in range(need)]
        slots = [page * self.page_size + i for page in request.pages for i in range(self.page_size)]
        self.runner.req_to_token_pool.req_to_token[row, :count] = torch.tensor(
            slots[:count], dtype=torch.int32
        )
        return True

    def drop(self, row):
        request = self.requests.pop(row)
        self.free += request.pages[request.owned :]

    def batch(self, mode, rows, counts):
        lengths = [self.requests[row].done + count for row, count in zip(rows, counts)]
        table = self.runner.req_to_token_pool.req_to_token
        slots = [table[row, end - count : end] for row, count, end in zip(rows, counts, lengths)]
        ids = [t for row, count, end in zip(rows, counts, lengths)
               for t in self.requests[row].tokens[end - count : end]]
        used = torch.tensor(lengths)
        batch = ForwardBatch(
            forward_mode=mode, batch_size=len(rows), input_ids=torch.tensor(ids),
            req_pool_indices=torch.tensor(rows), seq_lens=used, seq_lens_cpu=used,
            out_cache_loc=torch.cat(slots).long(), seq_lens_sum=sum(lengths),
        )  # fmt: skip
        if mode != ForwardMode.DECODE:
            batch.extend_seq_lens, batch.extend_seq_lens_cpu = torch.tensor(counts), counts
            batch.extend_prefix_lens = used - torch.tensor(counts)
        return batch

    def rows_of(self, name, request, first, last):
        places = torch.arange(first, last)
        return self.tables[name][torch.tensor(request.tokens[first:last]), places]


def expected_of(engine, request, first, last, layer, sinks):
    q = engine.rows_of("q", request, first, last).double()
    k, v = (
        engine.rows_of(name, request, 0, last).double().repeat_interleave(2, 1) for name in "kv"
    )
    scores = torch.einsum("qhd,khd->hqk", q, k) * layer.scaling
    if layer.logit_cap:
        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
    i, j = torch.arange(first, last)[:, None], torch.arange(last)[None, :]
    seen = j <= i
    if layer.sliding_window_size > 0:
        seen = seen & (j >= i - layer.sliding_window_size)
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, last - first, 1)], -1)
        v = torch.cat([v, torch.zeros_like(v[:1])])
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def run_steps(steps, layer, page_size=16, pages=26, sinks=None, by_graph=False):
    engine = Engine(page_size, pages)
    backend = ours.Backend(engine.runner)
    if by_graph:
        backend.init_cuda_graph_state(REQUESTS, REQUESTS)
    places = set()
    for step in range(steps):
        mode, rows, counts = ForwardMode.DECODE, [], []
        if step % 4 == 0 or not engine.requests:  # prompts, and one query of those that run
            mode = ForwardMode.EXTEND if not engine.requests else ForwardMode.MIXED
            old = list(engine.requests)
            while len(engine.requests) < REQUESTS:
                row = engine.add()
                left = len(engine.requests[row].tokens) - engine.requests[row].done
                count = min(left, 30)
                if not engine.reserve(row, engine.requests[row].done + count):
                    engine.drop(row)
                    break
                rows.append(row)
                counts.append(count)
        else:
            old = list(engine.requests)
        for row in old:
            request = engine.requests[row]
            if not engine.reserve(row, request.done + 1):
                engine.drop(row)
                engine.retracted += 1
                continue
            rows.append(row)
            counts.append(1)
        if not rows:
            continue
        batch = engine.batch(mode, rows, counts)
        if by_graph and mode == ForwardMode.DECODE:
            backend.init_forward_metadata_out_graph(batch)
            places.add(backend.forward_metadata.pages.data_ptr())
        else:
            backend.init_forward_metadata(batch)
        spans = [(engine.requests[row], engine.requests[row].done, engine.requests[row].done + n)
                 for row, n in zip(rows, counts)]
        q, k, v = (
            torch.cat([engine.rows_of(name, *span) for span in spans]) for name in "qkv"
        )
        forward = backend.forward_decode if mode == ForwardMode.DECODE else backend.forward_extend
        o = forward(q.flatten(1), k, v, layer, batch, sinks=sinks)
        assert o.shape == (len(q), HEADS * DIM)
        expected = torch.cat([expected_of(engine, *span, layer, sinks) for span in spans])
        torch.testing.assert_close(o.view_as(expected).double(), expected, atol=4e-3, rtol=4e-3)
        for row, (request, _, last) in zip(rows, spans):
            request.done = last
            shared = 2 * page_size
            if request.owned == 0 and last >= shared and not engine.is_prefix_there:
                if request.tokens[:shared] == [t % 40 for t in range(shared)]:
                    # The first that has it gives its pages to all.
                    engine.free += engine.prefix
                    engine.prefix, request.owned = request.pages[:2], 2
                    engine.is_prefix_there = True
            request.left -= 1
            if request.left == 0 or last == CONTEXT - 1:
                engine.drop(row)
            elif request.done == len(request.tokens):
                request.tokens.append(engine.rng.randrange(40))
    assert len(places) <= 1
    return engine


def layer_of(**changes):
    return RadixAttention(HEADS, DIM, DIM**-0.5, HEADS_KV, 0, **changes)


def test_fifty_steps_with_shared_prefixes_and_retraction():
    engine = run_steps(50, layer_of(), pages=14)
    assert engine.hits and engine.retracted


@pytest.mark.parametrize("by_graph", [False, True])
@pytest.mark.parametrize(
    "layer, options",
    [
        ({}, {"page_size": 1, "pages": 400}),
        ({"sliding_window_size": 20}, {}),
        ({"logit_cap": 5.0}, {"sinks": torch.linspace(-1, 2, HEADS).bfloat16()}),
        ({}, {"page_size": 48, "pages": 12}),
    ],
)
def test_layers(layer, options, by_graph):
    run_steps(9, layer_of(**layer), by_graph=by_graph, **options)


def test_registration():
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES

    register_sglang()
    register_sglang()
    assert ATTENTION_BACKEND_CHOICES.count("flashcore") == 1
    made = attention_registry.ATTENTION_BACKENDS["flashcore"](runner_of(16, 4))
    assert isinstance(made, AttentionBackend) and type(made) is ours.Backend


def test_what_it_does_not_compute_is_named():
    def expect(match, call, *arguments, **changes):
        with pytest.raises(flashcore.UnsupportedError, match=match):
            call(*arguments, **changes)

    encoder = SimpleNamespace(context_len=CONTEXT, is_encoder_decoder=True)
    expect("but got MLA", lambda: ours.Backend(runner_of(16, 4, use_mla_backend=True)))
    expect("an encoder beside", lambda: ours.Backend(runner_of(16, 4, model_config=encoder)))
    expect(
        "a cache of torch.float8_e4m3fn",
        lambda: ours.Backend(runner_of(16, 4, kv_cache_dtype=torch.float8_e4m3fn)),
    )
    pool = SimpleNamespace(translate_loc_from_full_to_swa=None)
    expect("--disable-hybrid-swa", lambda: ours.Backend(runner_of(16, 4, token_to_kv_pool=pool)))
    engine = Engine(16, 8)
    backend, row = ours.Backend(engine.runner), engine.add()
    engine.reserve(row, 1)
    batch = engine.batch(ForwardMode.EXTEND, [row], [1])
    expect("CUDA graphs of decoding alone", backend.init_forward_metadata_out_graph, batch)
    backend.init_forward_metadata(batch)
    q = torch.zeros(1, HEADS * DIM).half()
    k = torch.zeros(1, HEADS_KV, DIM).half()
    cross = layer_of(is_cross_attention=True)
    expect("got cross attention", backend.forward_extend, q, k, k, cross, batch)
    expect("got q_rope", backend.forward_extend, q, k, k, layer_of(), batch, q_rope=q)
    batch.spec_info = SimpleNamespace()
    expect("no speculative decoding", backend.init_forward_metadata, batch)


def test_encoder_sees_all():
    engine = Engine(16, 8)
    backend, row = ours.Backend(engine.runner), engine.add()
    count = min(20, len(engine.requests[row].tokens))
    engine.reserve(row, count)
    batch = engine.batch(ForwardMode.EXTEND, [row], [count])
    backend.init_forward_metadata(batch)
    q, k, v = (engine.rows_of(name, engine.requests[row], 0, count) for name in "qkv")
    o = backend.forward_extend(
        q.flatten(1), k, v, layer_of(attn_type=AttentionType.ENCODER_ONLY), batch
    )
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x[None].transpose(1, 2).float() for x in (q, k, v)), enable_gqa=True
    )[0].transpose(0, 1)
    torch.testing.assert_close(o.view_as(q).float(), expected, atol=4e-3, rtol=4e-3)
