"""Who computes a call: one table of interfaces and of the ways in which they are called.

K: a kernel; P: PyTorch as a whole, with one warning; B: a kernel, and PyTorch's backward pass;
E: one error.
"""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import flashcore
import flashcore.torch
from clause_calls import make_calls
from flashcore.operators import fallback, formula, merging, training

WAYS = ("eager", "no_grad", "grad", "compile", "compile_grad", "export", "vmap", "autocast")

#: By names of clause_calls; a letter for each of these ways.
TABLE = {
    #                        eager no_grad grad compile compile_grad export vmap autocast
    "plain":                  "K     K      B    K       B            K      K    K",
    "softcap":                "K     K      P    K       P            K      K    K",
    "top_left, window":       "K     K      P    K       P            K      K    K",
    "head_scales":            "K     K      P    K       P            K      K    K",
    "alibi_slopes":           "K     K      P    K       P            K      K    K",
    "sinks":                  "K     K      P    K       P            K      K    K",
    "seqused_k":              "K     K      P    K       P            K      K    K",
    "cu_seqlens":             "K     K      P    K       -            K      K    K",
    "page_table":             "K     K      E    K       E            K      K    K",
    "k_new":                  "K     K      E    K       E            -      -    K",
    "dropout_p":              "K     K      P    K       P            K      K    K",
    "scores":                 "K     K      E    K       E            K      K    K",
    "block_mask":             "K     K      E    K       E            K      K    K",
    "mask_mod":               "K     K      P    K       P            K      K    K",
    "mask_mod of a handle":   "K     K      P    K       P            K      K    K",
    "flash_attn_func":        "K     K      P    K       P            K      K    K",
    "flash_attn_varlen_func": "K     K      P    K       -            K      K    K",
    "flex_attention":         "K     K      P    K       P            K      K    K",
    "merge":                  "K     K      P    K       P            K      K    K",
    "sdpa":                   "K     K      B    K       B            K      K    K",
}  # fmt: skip


def calls():
    found = make_calls()
    q, k, v = found["sinks"][1:4]
    attention = flashcore.attention
    sdpa = flashcore.torch.scaled_dot_product_attention
    lses = torch.zeros(2, *q.shape[:3])
    found["plain"] = (lambda q, k, v: attention(q, k, v, causal=True), q, k, v)
    found["softcap"] = (lambda q, k, v: attention(q, k, v, softcap=9.0), q, k, v)
    found["top_left, window"] = (
        lambda q, k, v: attention(q, k, v, causal="top_left", window=5), q, k, v
    )
    found["merge"] = (lambda x: flashcore.merge(x, lses), torch.stack([q, q]))
    found["sdpa"] = (lambda q, k, v: sdpa(q, k, v, enable_gqa=True), q, k, v)
    return found


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    torch.compiler.reset()
    monkeypatch.setattr(fallback, "_told", {})


@pytest.fixture
def backward(monkeypatch):
    """How often PyTorch's backward pass took what a kernel has left."""
    taken = []
    of = training._gradients_of
    monkeypatch.setattr(training, "_gradients_of", lambda *given: taken.append(1) or of(*given))
    return taken


def first(result):
    return result[0] if isinstance(result, tuple) else result


def needing(tensors):
    return [x.clone().requires_grad_(x.is_floating_point()) for x in tensors]


def run(way, function, tensors):
    if way == "eager":
        return function(*tensors)
    if way == "no_grad":
        with torch.no_grad():
            return function(*needing(tensors))
    if way in ("grad", "compile_grad"):
        if way == "compile_grad":
            function = torch.compile(function, backend="aot_eager")
        leaves = needing(tensors)
        first(function(*leaves)).float().sum().backward()
        return leaves[0].grad
    if way == "compile":
        return torch.compile(function, backend="aot_eager", fullgraph=True)(*tensors)
    if way == "export":

        class Module(torch.nn.Module):
            def forward(self, *given):
                return function(*given)

        exported = torch.export.export(Module(), tuple(tensors))
        assert any("flashcore" in str(node.target) for node in exported.graph.nodes)
        return exported.module()(*tensors)
    if way == "vmap":
        return torch.vmap(lambda q: function(q, *tensors[1:]))(tensors[0][None])
    with torch.autocast("cpu", dtype=torch.float16):
        return function(*tensors)


def who(way, function, tensors, backward):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            run(way, function, tensors)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            assert "GradientError" in text, text
            return "E"
    told = [str(x.message) for x in warned if issubclass(x.category, flashcore.torch.FallbackWarning)]
    assert len(told) == len(flashcore.torch.fallbacks()) <= 1, told
    if told:
        return "P"
    return "B" if backward else "K"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TABLE)
def test_who_computes(name, way, backward):
    expected = TABLE[name].split()[WAYS.index(way)]
    if expected == "-":
        pytest.skip("is not called so")
    function, *tensors = calls()[name]
    assert who(way, function, tensors, backward) == expected


def test_the_table_is_whole():
    assert set(calls()) - set(TABLE) <= {
        "rotary", "probabilities", "mask_mod of a tensor", "score_mod, mask_mod", "bshd, invariant",
        "flash_attn_with_kvcache",
    }  # fmt: skip
    assert all(len(row.split()) == len(WAYS) for row in TABLE.values())


def test_what_leaves_a_graph_is_told():
    class Callable:
        width = 3

        def __call__(self, b, h, i, j):
            return i - j < self.width

    q, k, v = calls()["plain"][1:]
    mask = Callable()
    torch.compile(lambda q, k, v: flashcore.attention(q, k, v, mask_mod=mask), backend="aot_eager")(q, k, v)
    (reason,) = flashcore.torch.fallbacks()
    assert "torch.compile leaves its graph" in reason and "flashcore.mask" in reason
