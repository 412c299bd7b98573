"""FlashCore as the flash-attn of Transformers: continuous batching and packed sequences."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
transformers = pytest.importorskip("transformers", "5.19", reason="needs Transformers 5.19")

import flashcore
import flashcore.transformers
from flashcore import transformers_flash
from torch_models import build, generate, generate_alone, logits_agree, prompts, texts_agree
from transformers import modeling_flash_attention_utils as utils

NAME = "fc_flash_attention_2"
KINDS = ["llama", "mistral", "gemma2", "gpt_oss"]
flashcore.transformers.register_flash()


@pytest.fixture
def calls(monkeypatch):
    """The options of the calls that reach FlashCore, as they were: Transformers reuses tensors."""
    made = []

    def attention(*args, **options):
        is_tensor = torch.is_tensor
        made.append({n: x.clone() if is_tensor(x) else x for n, x in options.items()})
        return flashcore.attention(*args, **options)

    monkeypatch.setattr(transformers_flash, "attention", attention)
    return made


@pytest.fixture
def warned(monkeypatch):
    """No reason of a fallback was told before."""
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})


def model_of(kind, dtype=torch.float16, **sizes):
    return build(kind, dtype, implementation=NAME, **sizes)


def tokens(*shape, seed=1):
    return torch.randint(1, 96, shape, generator=torch.Generator().manual_seed(seed))


def by_eager(model, texts):
    model.set_attn_implementation("eager")
    return generate_alone(model, texts)


# Continuous batching ----------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_texts_of_unlike_lengths_agree(calls, kind, dtype):
    model, texts = model_of(kind, dtype), prompts([5, 19, 33, 1])
    ours = generate(model, texts)
    assert all("cu_seqlens_k" in each for each in calls) and len(calls) >= 12
    assert {each["window"] for each in calls} <= {(None, None), (7, None)}
    assert all(each["causal"] for each in calls)
    assert all(each["softcap"] == (20.0 if kind == "gemma2" else None) for each in calls)
    assert all(("sinks" in each) == (kind == "gpt_oss") for each in calls)
    tolerance = 2e-2 if dtype == torch.float16 else 0.15
    texts_agree(ours, by_eager(model, texts), tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_are_read_in_parts(calls, kind):
    """A prompt is longer than a batch, so that queries meet keys of the cache."""
    model, texts = model_of(kind), prompts([37, 9, 50])
    ours = generate(model, texts, max_batch_tokens=16, page_size=4, num_blocks=128)
    assert any(
        (each["cu_seqlens_k"].diff() > each["cu_seqlens_q"].diff()).any()
        and each["cu_seqlens_q"].diff().max() > 1
        for each in calls
    )
    texts_agree(ours, by_eager(model, texts))


def test_prefixes_are_shared(monkeypatch):
    from transformers.generation.continuous_batching import PagedAttentionCache

    search, found = PagedAttentionCache.search_prefix_match, []

    def search_and_tell(self, *args):
        found.append(search(self, *args))
        return found[-1]

    monkeypatch.setattr(PagedAttentionCache, "search_prefix_match", search_and_tell)
    model = model_of("llama")
    (start,) = prompts([32])
    texts = [start + each for each in prompts([3, 7], seed=2)]
    # The second text is read after the first.
    ours = generate(model, texts, page_size=16, max_batch_tokens=35)
    assert max(found) == 32
    texts_agree(ours, by_eager(model, texts))


@pytest.fixture
def pages(monkeypatch):
    """Decoding by a page table in host memory, of batches that are filled up to a power of two."""
    from transformers.generation.continuous_batching import initialization, model_runner

    monkeypatch.setattr(
        initialization, "ensure_decode_fast_path_is_available", lambda *args, **options: None
    )
    runner, make = model_runner.ModelRunner, model_runner.ModelRunner.__init__

    def make_with_padding(self, *args, **options):
        make(self, *args, **options)
        self.pad_inputs = True

    monkeypatch.setattr(runner, "__init__", make_with_padding)


@pytest.mark.parametrize("page_size", [16, 48, 256])
def test_decoding_by_a_page_table_agrees(calls, pages, page_size):
    model, texts = model_of("llama"), prompts([5, 19, 33])
    options = {"page_size": page_size, "num_blocks": 16, "max_blocks_per_request": 4}
    ours = generate(model, texts, max_requests_per_batch=8, **options)
    # Behind those that warm up: three texts, and an entry that is none.
    decoding = [each["seqused_k"] for each in calls if "page_table" in each][-2 * 5 :]
    assert [sorted(each.tolist()) for each in decoding[::2]] == [
        [-1, 5 + n, 19 + n, 33 + n] for n in range(5)
    ]
    texts_agree(ours, by_eager(model, texts))


def caches_of(pages, page_size, layers=2, heads=2, dim=32):
    """Views of keys and values of layer 1 in one pool, as Transformers has them: they overlap."""
    pool = torch.randn(pages * layers * 2 * page_size, heads, dim).half()
    k, v = (pool[n * page_size :].view(-1, page_size, heads, dim) for n in (2, 3))
    return pool, k[: v.shape[0]], v


@pytest.mark.parametrize("has_sinks", [False, True])
def test_page_tables_with_entries_that_are_none(has_sinks):
    torch.manual_seed(3)
    pool, k_cache, v_cache = caches_of(pages=8, page_size=16)
    table = torch.full((4, 3), -1, dtype=torch.int32)
    table[0, :2], table[1, :1] = torch.tensor([8, 24]), 16
    used = torch.tensor([20, 5, -1, -1], dtype=torch.int32)
    q = torch.randn(4, 1, 4, 32).half()
    k, v = (torch.randn(4, 1, 2, 32).half() for _ in "kv")
    sinks = torch.randn(4).half() if has_sinks else None
    before = pool.clone()
    o = transformers_flash.flash_with_kvcache(
        q, k_cache, v_cache, k, v, used, table, causal=True, s_aux=sinks
    )
    assert torch.equal(o[2:], torch.zeros_like(o[2:]))
    # A row of keys and one of values for each entry that is one, and no others.
    for entry, page, row in ((0, 24, 4), (1, 16, 5)):
        assert torch.equal(k_cache[page, row], k[entry, 0])
        assert torch.equal(v_cache[page, row], v[entry, 0])
        keys, values = (
            cache[table[entry, :2].long().clamp(min=0)].flatten(0, 1)[: used[entry] + 1]
            for cache in (k_cache, v_cache)
        )
        expected = transformers_flash.flash_func(
            q[entry : entry + 1], keys[None], values[None], causal=True, s_aux=sinks
        )
        torch.testing.assert_close(o[entry], expected[0], atol=2e-3, rtol=2e-3)
    assert (pool != before).any(-1).any(-1).sum() == 4


# Packed sequences and padded batches ------------------------------------------


def packed(*lengths):
    ids = tokens(1, sum(lengths))
    return ids, torch.cat([torch.arange(n) for n in lengths])[None]


@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_packed_sequences_agree(calls, kind):
    model = model_of(kind)
    ids, places = packed(3, 20, 1, 11)
    with torch.no_grad():
        ours = model(ids, position_ids=places).logits
        assert all(each["cu_seqlens_q"].tolist() == [0, 3, 23, 24, 35] for each in calls)
        model.set_attn_implementation("eager")
        alone = [model(part).logits for part in ids.split([3, 20, 1, 11], 1)]
    torch.testing.assert_close(ours, torch.cat(alone, 1), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("kind", KINDS + ["bert"])
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_logits_agree(calls, kind, side):
    inputs = {}
    if side:
        inputs["attention_mask"] = torch.ones(2, 20, dtype=torch.long)
        inputs["attention_mask"][1, slice(0, 6) if side == "left" else slice(14, 20)] = 0
    logits_agree(model_of(kind), tokens(2, 20), **inputs)
    assert calls and all(("cu_seqlens_q" in each) == bool(side) for each in calls)
    assert all(each["causal"] == (kind != "bert") for each in calls)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_of_a_padded_batch_agrees(cache):
    model, ids = model_of("gpt_oss"), tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    options = {
        "max_new_tokens": 6, "do_sample": False, "output_logits": True, "pad_token_id": 0,
        "return_dict_in_generate": True, "cache_implementation": cache, "disable_compile": True,
        "eos_token_id": None, "attention_mask": mask,
    }  # fmt: skip
    ours = model.generate(ids, **options)
    model.set_attn_implementation("eager")
    theirs = model.generate(ids, **options)
    for mine, wanted in zip(ours.logits, theirs.logits):
        torch.testing.assert_close(mine, wanted, atol=2e-2, rtol=2e-2)
        if not torch.equal(mine.argmax(-1), wanted.argmax(-1)):
            break  # from a tie on the texts differ


@pytest.mark.parametrize("kind", ["llama", "gpt_oss"])
def test_compiled_model_agrees(kind):
    """Transformers breaks the graph where it looks for packed sequences."""
    torch.compiler.reset()
    model, ids = model_of(kind), tokens(1, 16)
    with torch.no_grad():
        eager = model(ids, use_cache=False).logits
        compiled = torch.compile(model.forward, backend="aot_eager")
        actual = compiled(ids, use_cache=False).logits
    torch.testing.assert_close(actual, eager, atol=1e-2, rtol=1e-2)


# What PyTorch computes --------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_float32_goes_to_pytorch_with_a_warning(warned, kind):
    model, texts = model_of(kind, torch.float32), prompts([5, 30])
    with pytest.warns(flashcore.torch.FallbackWarning, match="query is of torch.float32"):
        ours = generate(model, texts, max_batch_tokens=16)
    texts_agree(ours, by_eager(model, texts), 1e-4)


def test_float32_with_a_page_table_is_refused(pages):
    with pytest.raises(AssertionError, match="expects q of float16 or bfloat16 with block_table"):
        generate(model_of("llama", torch.float32), prompts([5]), max_blocks_per_request=4)


LENGTHS = [9, 1, 14]


def loss_of(model, is_packed):
    """Of logits by weights; each sequence alone, unless it is packed."""
    ids, places = packed(*LENGTHS)
    if is_packed:
        logits = model(ids, position_ids=places, use_cache=False).logits
    else:
        parts = ids.split(LENGTHS, 1)
        logits = torch.cat([model(part, use_cache=False).logits for part in parts], 1)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(5))
    return (logits * weights).mean()


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_training_is_refused_or_falls_back(kind, is_packed):
    model = model_of(kind).train()
    try:
        flashcore.torch.set_on_grad("error")
        with pytest.raises(flashcore.GradientError):
            loss_of(model, is_packed)
        flashcore.torch.set_on_grad("fallback")
        loss_of(model, is_packed).backward()
    finally:
        flashcore.torch.set_on_grad("backward")
    assert all(each.grad is not None for each in model.parameters())


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_float32_agree(kind, is_packed):
    model, wanted = (
        build(kind, torch.float32, implementation=name).train() for name in (NAME, "eager")
    )
    loss_of(model, is_packed).backward()
    loss_of(wanted, False).backward()
    for (name, mine), theirs in zip(model.named_parameters(), wanted.parameters()):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-6, rtol=1e-3), name


def test_rows_of_no_sequence_may_be_anything(warned):
    """By a kernel, and by PyTorch: rows in front of the first sequence and behind the last."""
    q, k, v = (torch.randn(rows, heads, 32).half() for rows, heads in ((30, 4), (40, 2), (40, 2)))
    for rows, ends in ((q, (0, 25)), (k, (2, 36)), (v, (2, 36))):
        rows[: ends[0]], rows[ends[1] :] = torch.nan, torch.nan
    lengths = (
        torch.tensor([0, 5, 5, 17, 25], dtype=torch.int32),
        torch.tensor([2, 12, 14, 26, 36], dtype=torch.int32),
    )
    for options in ({}, {"causal": True, "softcap": 5.0}, {"window_size": (3, 2)}):
        ours = transformers_flash.flash_varlen_func(q, k, v, *lengths, 12, 12, **options)
        f32 = (each.float() for each in (q, k, v))
        theirs = transformers_flash.flash_varlen_func(*f32, *lengths, 12, 12, **options)
        torch.testing.assert_close(ours[:25].float(), theirs[:25], atol=4e-3, rtol=4e-3)
        assert torch.equal(theirs[25:], torch.zeros_like(theirs[25:]))


def test_what_no_kernel_takes_goes_to_pytorch(warned):
    q, k, v = (torch.randn(9, 2, 288).half() for _ in "qkv")
    lengths = torch.tensor([0, 4, 9], dtype=torch.int32)
    with pytest.warns(flashcore.torch.FallbackWarning, match="288"):
        o = transformers_flash.flash_varlen_func(q, k, v, lengths, lengths, 5, 5, causal=True)
    for rows in (slice(0, 4), slice(4, 9)):
        parts = (each[None, rows] for each in (q, k, v))
        alone = transformers_flash.flash_func(*parts, causal=True)
        torch.testing.assert_close(o[rows], alone[0], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("has_lengths", [False, True])
def test_dropout_is_drawn_by_the_kernel(calls, has_lengths):
    model = model_of("llama", attention_dropout=0.5).train()
    ids, places = packed(30, 12)
    inputs = {"position_ids": places} if has_lengths else {}
    with torch.no_grad():
        outputs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            outputs.append(model(ids, use_cache=False, **inputs).logits)
    assert {each["dropout_p"] for each in calls} == {0.5}
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[1], outputs[2])


# Names and versions -----------------------------------------------------------


def test_models_with_sinks_keep_the_name():
    """Transformers replaces names that such a model does not list."""
    model = model_of("gpt_oss")
    assert model.config._attn_implementation == NAME
    made = transformers.GptOssForCausalLM._from_config(model.config, attn_implementation=NAME)
    assert made.config._attn_implementation == NAME


def test_other_names_stay_as_they_are():
    assert inspect.signature(utils._lazy_imports).parameters.keys() >= {"implementation"}
    model = model_of("llama")
    with pytest.raises(ImportError, match="flash_attn|flash-attn|FlashAttention"):
        model.set_attn_implementation("flash_attention_2")
    with pytest.raises(ValueError, match="not_registered"):
        model.set_attn_implementation("not_registered")
    flashcore.transformers.register_flash("fc_flash_3")
    model.set_attn_implementation("fc_flash_3")
    assert utils.lazy_import_flash_attention("fc_flash_3")[0][0] is transformers_flash.flash_func
    assert not getattr(utils._lazy_imports.__wrapped__, "is_of_flashcore", False)


@pytest.mark.parametrize(
    "name", ["fc_attention", "fc_flash", "2_flash", "flash_attention_2", "me/flash2"]
)
def test_names_that_mean_something_else_are_refused(name):
    with pytest.raises(ValueError, match=f"a word with 'flash' and a 2 or 3.*but got '{name}'"):
        flashcore.transformers.register_flash(name)


def test_names_of_another_implementation_are_refused():
    with pytest.raises(ValueError, match="expects a name without 'sdpa'.*but got 'sdpa_flash_2'$"):
        flashcore.transformers.register_flash("sdpa_flash_2")


def test_models_that_flash_attn_does_not_run_are_refused():
    config = transformers.T5Config(d_model=32, d_kv=16, num_layers=1, num_heads=2, vocab_size=96)
    model = transformers.T5EncoderModel(config)
    assert not model._supports_flash_attn
    with pytest.raises(ValueError, match=f"for '{NAME}', but got T5EncoderModel: use flashcore"):
        model.set_attn_implementation(NAME)


def test_another_transformers_is_refused(monkeypatch):
    def of_four(implementation):
        return (None,) * 4, None

    monkeypatch.setattr(utils, "lazy_import_flash_attention", of_four)
    with pytest.raises(flashcore.Error, match="takes five functions, as 5.19 to 5.24 do, but got"):
        flashcore.transformers.register_flash("fc_flash_2_of_four")
    assert "fc_flash_2_of_four" not in transformers_flash._names
    monkeypatch.delattr(utils, "_lazy_imports")
    with pytest.raises(flashcore.Error, match="utils has _lazy_imports, as 5.19 to 5.24 do"):
        flashcore.transformers.register_flash()
