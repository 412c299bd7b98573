"""Small models of Transformers: the logits of sdpa or eager, prefill and generation."""

import random
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
transformers = pytest.importorskip("transformers", "5.4", reason="needs Transformers 5.4")

import flashcore
import flashcore.transformers
from torch_models import build, logits_agree

flashcore.transformers.register()


@pytest.fixture
def calls(monkeypatch):
    """The options of the calls that reach FlashCore."""
    made = []

    def attention(*args, **options):
        made.append(options)
        return flashcore.attention(*args, **options)

    monkeypatch.setattr(flashcore.transformers, "attention", attention)
    return made


def tokens(*shape, seed=1):
    return torch.randint(1, 96, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["llama", "gemma2", "mistral", "bert"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_agree(calls, kind, dtype):
    logits_agree(build(kind, dtype), tokens(2, 20))
    assert calls and all(options["bias"] is None for options in calls)
    causal = kind != "bert"
    assert all(options["causal"] == causal for options in calls)
    windows = {"gemma2": {(7, None)}, "mistral": {(7, None)}}.get(kind, {(None, None)})
    seen = {options["window"] for options in calls}
    assert windows <= seen
    assert {options["softcap"] for options in calls} == {20.0 if kind == "gemma2" else None}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gpt_oss_has_sinks_and_windows(calls, dtype):
    logits_agree(build("gpt_oss", dtype), tokens(2, 20))
    assert calls and all(options["causal"] for options in calls)
    assert all(options["sinks"].dtype == torch.float32 for options in calls)
    assert {options["window"] for options in calls} == {(7, None), (None, None)}
    assert all(options["bias"] is None for options in calls)


def test_gpt_oss_falls_back_with_its_sinks(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    with pytest.warns(flashcore.torch.FallbackWarning, match="query is of torch.float32"):
        logits_agree(build("gpt_oss", torch.float32), tokens(1, 20))
    model = build("gpt_oss").train()
    try:
        flashcore.torch.set_on_grad("error")
        with pytest.raises(flashcore.GradientError):
            model(tokens(1, 20))
        flashcore.torch.set_on_grad("fallback")
        model(tokens(1, 20), labels=tokens(1, 20)).loss.backward()
    finally:
        flashcore.torch.set_on_grad("backward")
    assert all(layer.self_attn.sinks.grad is not None for layer in model.model.layers)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "bert"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_of_padded_batches_agree(calls, kind, side):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, slice(0, 6) if side == "left" else slice(14, 20)] = 0
    logits_agree(build(kind), tokens(2, 20), attention_mask=mask)
    if kind == "gemma2" and side == "right":  # windows count from the last key that is there
        calls[:] = [options for options in calls if options["bias"] is None]
    assert calls and all(options["bias"] is None for options in calls)
    assert all(("mask_mod" in options) == (side == "left") for options in calls)
    assert all(options["seqused_k"].tolist() == [20, 20 if side == "left" else 14] for options in calls)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "bert"])
def test_masks_with_holes_agree(calls, kind):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, [3, 7, 8]] = 0
    logits_agree(build(kind), tokens(2, 20), attention_mask=mask)
    assert calls and all(options["bias"] is not None for options in calls)


@pytest.mark.parametrize("kind", ["llama", "bert"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_lengths_are_whole_masks_for_pytorch(calls, monkeypatch, kind, side):
    """What no kernel computes goes to PyTorch with all that the lengths hide."""
    from flashcore import transformers_flash

    monkeypatch.setattr(transformers_flash, "reason_against", lambda *tensors: "a test says so")
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, slice(0, 6) if side == "left" else slice(14, 20)] = 0
    with pytest.warns(flashcore.torch.FallbackWarning, match="a test says so"):
        logits_agree(build(kind), tokens(2, 20), attention_mask=mask)
    assert not calls


@pytest.mark.parametrize("seed", range(60))
def test_masks_are_those_of_transformers(seed):
    """Of any padding, cache and window: what the flags and lengths of a layer hide."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask
    from transformers.masking_utils import sliding_window_causal_mask_function

    from flashcore.transformers_masks import options_of

    draw = random.Random(seed)
    queries, before, room = draw.choice([1, 3, 9]), draw.choice([0, 0, 4]), draw.choice([0, 0, 5])
    total = before + queries
    keys, is_causal = total + room, draw.random() < 0.7
    window = draw.choice([None, None, 2, 6]) if is_causal else None
    padding = None
    if draw.random() < 0.8:
        padding = torch.ones(3, draw.choice([total, keys]), dtype=torch.long)
        kind = draw.choice(["left", "right", "hole", "none"])
        for row in padding[:, :total] if kind != "none" else ():
            row[{"left": slice(0, draw.randint(0, total - 1)), "hole": slice(1, 2),
                 "right": slice(draw.randint(1, total), total)}[kind]] = 0
        padding[:, total:] = 0
        padding = padding != 0
    function = causal_mask_function if is_causal else bidirectional_mask_function
    if window:
        function = sliding_window_causal_mask_function(window)
    if not is_causal:
        room, keys, padding = 0, total, padding if padding is None else padding[:, :total]
    config = transformers.MistralConfig(sliding_window=window)
    given = {
        "batch_size": 3, "q_length": queries, "kv_length": keys, "q_offset": before,
        "mask_function": function, "attention_mask": padding, "local_size": window,
    }  # fmt: skip
    with torch.no_grad():
        made = flashcore.transformers.attention_mask(
            **given, allow_is_causal_skip=is_causal, allow_is_bidirectional_skip=not is_causal,
            config=config, device="cpu",
        )  # fmt: skip
    q, k = torch.zeros(3, 1, queries, 8).half(), torch.zeros(3, 1, keys, 8).half()
    seen = options_of(made, is_causal, queries, keys, window, None, torch.float16)
    as_bias = seen.without_lengths(q, k)
    bias = as_bias.bias
    if bias is None:
        mask = {True: torch.ones(queries, keys).tril(keys - queries) != 0, False: torch.ones(queries, keys) != 0}
        bias = torch.zeros(3, 1, queries, keys).masked_fill(~mask[bool(as_bias.causal)], -torch.inf)
        if as_bias.window[0] is not None:
            own = torch.arange(queries)[:, None] + keys - queries
            bias = bias.masked_fill(torch.arange(keys) < own - as_bias.window[0], -torch.inf)
    expected = sdpa_mask(
        **given, allow_is_causal_skip=False, allow_is_bidirectional_skip=False, device="cpu"
    )
    expected = torch.ones(3, 1, queries, keys) != 0 if expected is None else expected
    actual = (bias == 0).expand(3, 1, queries, keys)
    is_real = torch.ones(3, queries) != 0  # of padding nobody reads what comes out
    if padding is not None:
        is_real = padding[:, before:total]
    assert torch.equal(actual[:, 0][is_real], expected.expand_as(actual)[:, 0][is_real])


def test_static_caches_go_by_lengths(calls):
    """Each step reads the keys that are there, and no mask of them is in memory."""
    model = build("llama")
    ids = tokens(2, 9)
    for padding in (0, 3):
        calls.clear()
        mask = torch.ones_like(ids)
        mask[1, :padding] = 0
        model.generate(
            ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0,
            eos_token_id=None, cache_implementation="static", disable_compile=True,
        )  # fmt: skip
        assert calls and all(options["bias"] is None for options in calls)
        used = [options["seqused_k"].tolist() for options in calls if "seqused_k" in options]
        assert used[-1] == [12, 12] and all(("mask_mod" in each) == (padding > 0) for each in calls)


@pytest.mark.parametrize("padding", [0, 3])
def test_static_caches_are_compiled(padding):
    torch.compiler.reset()
    model = build("llama", torch.float16)
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, :padding] = 0
    options = {
        "attention_mask": mask, "max_new_tokens": 4, "do_sample": False, "pad_token_id": 0,
        "eos_token_id": None, "cache_implementation": "static",
    }  # fmt: skip
    eager = model.generate(ids, disable_compile=True, **options)
    config = transformers.generation.CompileConfig(fullgraph=True, backend="aot_eager")
    config._compile_all_devices = True
    assert torch.equal(model.generate(ids, compile_config=config, **options), eager)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "mistral", "gpt_oss"])
def test_prefill_in_parts_agrees(calls, kind):
    model = build(kind)
    ids = tokens(1, 28)
    with torch.no_grad():
        whole = model(ids).logits
        first = model(ids[:, :12], use_cache=True)
        calls.clear()
        second = model(ids[:, 12:], past_key_values=first.past_key_values)
    parts = torch.cat([first.logits, second.logits], 1)
    torch.testing.assert_close(parts, whole, atol=2e-2, rtol=2e-2)
    assert calls and all(options["bias"] is None and options["causal"] for options in calls)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_agrees(kind, cache):
    model = build(kind, torch.float16)
    options = {
        "max_new_tokens": 12, "do_sample": False, "output_logits": True,
        "return_dict_in_generate": True, "cache_implementation": cache, "disable_compile": True,
        "pad_token_id": 0, "eos_token_id": None,
    }  # fmt: skip
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    ours = model.generate(ids, attention_mask=mask, **options)
    model.set_attn_implementation("eager")
    theirs = model.generate(ids, attention_mask=mask, **options)
    for mine, wanted in zip(ours.logits, theirs.logits):
        torch.testing.assert_close(mine, wanted, atol=2e-2, rtol=2e-2)
        if not torch.equal(mine.argmax(-1), wanted.argmax(-1)):
            break  # from a tie on the texts differ


@pytest.mark.parametrize("kind", ["llama", "gpt_oss"])
def test_compiled_model_has_no_break(kind):
    torch.compiler.reset()
    model = build(kind)
    ids = tokens(1, 16)
    with torch.no_grad():
        eager = model(ids, use_cache=False).logits
        compiled = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
        actual = compiled(ids, use_cache=False).logits
    torch.testing.assert_close(actual, eager, atol=1e-2, rtol=1e-2)


def test_float32_goes_to_pytorch_with_a_warning(monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    model = build("gemma2", torch.float32)
    with pytest.warns(flashcore.torch.FallbackWarning, match="query is of torch.float32"):
        logits_agree(model, tokens(1, 20))


def test_training_is_refused_or_falls_back():
    model = build("gemma2").train()
    try:
        flashcore.torch.set_on_grad("error")
        with pytest.raises(flashcore.GradientError):
            model(tokens(1, 20))
        flashcore.torch.set_on_grad("fallback")
        model(tokens(1, 20), labels=tokens(1, 20)).loss.backward()
    finally:
        flashcore.torch.set_on_grad("backward")
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    "kind, share", [("llama", "attention_dropout"), ("bert", "attention_probs_dropout_prob")]
)
@pytest.mark.parametrize("is_padded", [False, True])
def test_dropout_is_drawn_by_the_kernel(calls, kind, share, is_padded):
    """In training mode, without gradients."""
    others = {"hidden_dropout_prob": 0.0} if kind == "bert" else {}
    model = build(kind, **{share: 0.5}, **others).train()
    inputs = {}
    if is_padded:
        inputs["attention_mask"] = torch.ones(2, 20, dtype=torch.long)
        inputs["attention_mask"][1, :6] = 0
    outputs = []
    with torch.no_grad():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            outputs.append(model(tokens(2, 20), **inputs).logits[:, -1])
    assert {options["dropout_p"] for options in calls} == {0.5}
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[1], outputs[2])
    words = [tuple(options["rng"].tolist()) for options in calls]
    assert words[:2] == words[2:4] and len(set(words)) == 4


def test_dropout_that_no_kernel_draws_goes_to_pytorch(calls, monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    model = build("llama", attention_dropout=0.5).train()
    with pytest.warns(flashcore.torch.FallbackWarning, match="it has dropout, and needs gradients"):
        model(tokens(1, 20), labels=tokens(1, 20)).loss.backward()
    q = torch.randn(1, 2, 8, 32, dtype=torch.float16)
    with pytest.warns(flashcore.torch.FallbackWarning, match="its dropout is 1e-07, and not from"):
        flashcore.transformers.attention_forward(torch.nn.Module(), q, q, q, None, dropout=1e-7)
    assert not calls


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"s_aux": torch.zeros(2)}])
def test_dropout_and_sinks_are_compiled(options, monkeypatch):
    monkeypatch.setattr(flashcore.operators.fallback, "_told", {})
    torch.compiler.reset()
    q = torch.randn(1, 2, 8, 32, dtype=torch.float16)

    def call():
        return flashcore.transformers.attention_forward(
            torch.nn.Module(), q, q, q, None, is_causal=True, **options
        )[0]

    torch.manual_seed(1)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")()
    torch.manual_seed(1)
    assert torch.equal(compiled, call()) and not flashcore.torch.fallbacks()


def test_names_that_mean_something_else_are_refused():
    with pytest.raises(
        ValueError, match="expects a name without 'flash'.*but got 'flashcore': register_flash"
    ):
        flashcore.transformers.register("flashcore")


def test_position_bias_is_added():
    q = torch.randn(1, 2, 8, 32, dtype=torch.float16)
    bias = torch.randn(1, 2, 8, 8, dtype=torch.float16)
    keep = torch.rand(1, 1, 8, 8) < 0.7
    o, _ = flashcore.transformers.attention_forward(
        torch.nn.Module(), q, q, q, keep, position_bias=bias, is_causal=True
    )
    whole = bias.masked_fill(~keep, -torch.inf)
    expected = flashcore.attention(q, q, q, bias=whole).transpose(1, 2)
    assert torch.equal(o, expected)


def test_masks_that_flags_cannot_say_are_made():
    """A chunk of keys is no window, and the queries of a static cache do not end with it."""
    from transformers.masking_utils import chunked_causal_mask_function

    make_mask = flashcore.transformers.attention_mask
    config = transformers.Llama4TextConfig(attention_chunk_size=4)
    chunk = chunked_causal_mask_function(4, torch.zeros(1, dtype=int))
    mask = make_mask(1, 8, 8, mask_function=chunk, local_size=4, config=config)
    assert mask.shape == (1, 1, 8, 8) and mask[0, 0, 5, 3] == -torch.inf and mask[0, 0, 5, 4] == 0
    assert make_mask(1, 4, 16, q_offset=2).shape == (1, 1, 4, 16)
    assert make_mask(1, 4, 16, q_offset=12) is None
    assert make_mask(1, 4, 4, allow_is_causal_skip=False) is not None


@pytest.mark.parametrize("version", ["4.57.6", "5.3.0"])
def test_older_transformers_are_refused(monkeypatch, version):
    # The module that imports find: Transformers puts another in its place when it loads a model.
    monkeypatch.setattr(sys.modules["transformers"], "__version__", version)
    for register in (flashcore.transformers.register, flashcore.transformers.register_flash):
        with pytest.raises(flashcore.Error, match=f"Transformers 5.4 or newer, but got {version}"):
            register()
