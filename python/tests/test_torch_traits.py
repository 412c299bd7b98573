"""PyTorch's tensors that are more than their memory, and numbers that are tensors."""

import re

import pytest

torch = pytest.importorskip("torch")

import flashcore
from flashcore.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from flashcore.torch import scaled_dot_product_attention
from torch_inputs import assert_same_as as assert_close
from torch_inputs import make as qkv

MINUS = torch._neg_view


def freed(x):
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x


def nested(x):
    return torch.nested.nested_tensor(list(x))


def quantized(x):
    return torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8)


#: What a tensor becomes, and what the error says of it.
TRAITS = {
    "neg": (MINUS, "the negative bit, whose memory holds the other sign: pass {x}.resolve_neg()"),
    "zero": (lambda x: torch._efficientzerotensor(x.shape, dtype=x.dtype), "of zeros without memory: pass {x}.clone()"),
    "freed": (freed, "a tensor whose storage is empty"),
    "sparse": (lambda x: x.to_sparse(), "a sparse tensor: pass {x}.to_dense()"),
    "meta": (lambda x: x.to("meta"), "a tensor on the device meta, which has no memory"),
    "mkldnn": (lambda x: x.float().to_mkldnn(), "a tensor in the layout of mkldnn: pass {x}.to_dense()"),
    "quantized": (quantized, "a quantized tensor: pass {x}.dequantize().half()"),
    "nested": (nested, "a nested tensor that is not jagged: make it of the layout torch.jagged, pass its values"),
}  # fmt: skip


def refused(name, message, call, *arrays, **options):
    said = re.escape(message.format(x=name))
    with pytest.raises(TypeError, match=f"^[^\n]*expects {name} to be an array of plain memory.*{said}[^\n]*$"):
        call(*arrays, **options)


@pytest.fixture(params=TRAITS)
def trait(request):
    make, message = TRAITS[request.param]
    try:
        make(torch.ones(1, 2, 4, 16).half())
    except RuntimeError as error:  # as of a build without mkldnn
        pytest.skip(str(error).partition("\n")[0])
    return make, message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["q", "k", "v", "bias", "out", "sinks", "k_new"])
def test_each_argument_is_looked_at(trait, name):
    make, message = trait
    q, k, v = qkv(queries=20)
    arrays = {"q": q, "k": k, "v": v}
    others = {
        "bias": torch.zeros(1, 1, 20, 20), "out": torch.empty_like(q), "sinks": torch.zeros(q.shape[1]),
        "k_new": k[:, :, :1].clone(),
    }  # fmt: skip
    if name in others:
        arrays[name] = others[name]
    if name == "k_new":
        arrays |= {"v_new": v[:, :, :1].clone(), "seqused_k": torch.zeros(q.shape[0], dtype=torch.int32)}
    flashcore.attention(**arrays)  # so that the call is known
    arrays[name] = make(arrays[name])
    for _ in range(2):
        refused(name, message, flashcore.attention, **arrays)


@pytest.mark.filterwarnings("ignore")
def test_what_functions_and_merges_read(trait):
    make, message = trait
    q, k, v = qkv(queries=20)
    table = make(torch.ones(1, 2, 4, 16))
    shown = flashcore.capture(table)
    function = {"score_mod": lambda s, b, h, i, j: s + shown[0, 0, 0, 0]}
    refused("a captured tensor", message, flashcore.attention, q, k, v, **function)
    if message is not TRAITS["nested"][1]:
        outputs, lses = torch.ones(2, 1, 2, 20, 64).half(), torch.zeros(2, 1, 2, 20)
        if "mkldnn" not in message:  # of at most five axes
            refused("outputs", message, flashcore.merge, make(outputs), lses)
        refused("lses", message, flashcore.merge, outputs, make(lses))
        refused("part 1 of lses", message, flashcore.merge, list(outputs), [lses[0], make(lses[1])])


def test_a_drop_in_reads_what_pytorch_shows():
    q, k, v = qkv(queries=20)
    zero = torch._efficientzerotensor(v.shape, dtype=v.dtype)
    mask = torch.randn(20, 20)
    plain = scaled_dot_product_attention(q, k, v)
    for _ in range(2):
        assert torch.equal(scaled_dot_product_attention(MINUS(-q), k, v), plain)
        assert torch.equal(scaled_dot_product_attention(q, k, MINUS(-v)), plain)
        assert not scaled_dot_product_attention(q, k, zero).any()
    masked = scaled_dot_product_attention(q, k, v, mask)
    assert torch.equal(scaled_dot_product_attention(q, k, v, MINUS(-mask)), masked)


def test_a_copy_has_the_sign_that_is_shown():
    """Columns that lie apart are copied, by PyTorch; imaginary parts of conjugates have the bit."""
    q, k, v = qkv(queries=20)
    x = torch.complex(torch.zeros_like(q, dtype=torch.float32), -q.float()).conj().imag
    assert x.is_neg()
    bias = torch.complex(torch.zeros(20, 20), torch.randn(20, 20)).conj().imag
    for _ in range(2):
        with pytest.raises(TypeError, match=r"but got a tensor with the negative bit.*bias.resolve_neg"):
            flashcore.attention(q, k, v, bias=bias)
    assert_close(
        flashcore.attention(q, k, v, bias=bias.resolve_neg()),
        scaled_dot_product_attention(q, k, v, bias.resolve_neg()),
    )


SCALES = [torch.tensor(0.5), torch.nn.Parameter(torch.tensor(0.5)), torch.ones(1)]


@pytest.mark.parametrize("number", SCALES, ids=["tensor", "parameter", "axis"])
def test_numbers_are_no_tensors(number):
    q, k, v = qkv(queries=20)
    rows = [x.transpose(1, 2) for x in (q, k, v)]
    calls = [
        ("scale", lambda: flashcore.attention(q, k, v, scale=number)),
        ("softcap", lambda: flashcore.attention(q, k, v, softcap=number)),
        ("dropout_p", lambda: flashcore.attention(q, k, v, dropout_p=number)),
        ("window", lambda: flashcore.attention(q, k, v, window=number)),
        ("window", lambda: flashcore.attention(q, k, v, window=(number, 0))),
        ("lse", lambda: flashcore.attention(q, k, v, lse=number)),
        ("causal", lambda: flashcore.attention(q, k, v, causal=number)),
        ("layout", lambda: flashcore.attention(q, k, v, layout=number)),
        ("scale", lambda: flashcore.flex_attention(q, k, v, scale=number)),
        ("scale", lambda: scaled_dot_product_attention(q, k, v, scale=number)),
        ("dropout_p", lambda: scaled_dot_product_attention(q, k, v, dropout_p=number)),
        ("is_causal", lambda: scaled_dot_product_attention(q, k, v, is_causal=number)),
        ("enable_gqa", lambda: scaled_dot_product_attention(q, k, v, enable_gqa=number)),
        ("softmax_scale", lambda: flash_attn_func(*rows, softmax_scale=number)),
        ("softcap", lambda: flash_attn_func(*rows, softcap=number)),
        ("causal", lambda: flash_attn_func(*rows, causal=number)),
        ("window_size", lambda: flash_attn_func(*rows, window_size=(number, 0))),
        ("dropout_p", lambda: flash_attn_func(*rows, dropout_p=number)),
        ("return_attn_probs", lambda: flash_attn_func(*rows, return_attn_probs=number)),
        ("rotary_interleaved", lambda: flash_attn_with_kvcache(*rows, rotary_interleaved=number)),
    ]
    for name, call in calls:
        for _ in range(2):
            with pytest.raises(TypeError, match=f"expects {name} to be .*an array \\(torch"):
                call()


def test_a_scale_that_is_traced():
    """What stands for a number is one; a tensor is refused there, too."""
    q, k, v = qkv(queries=20)

    def function(q, k, v, scale):
        return flashcore.attention(q, k, v, scale=scale, window=(q.shape[2] // 2, 0))

    compiled = torch.compile(function, backend="eager", dynamic=True)
    for scale in (0.5, 0.25):
        assert_close(compiled(q, k, v, scale), function(q, k, v, scale))
    with pytest.raises(Exception, match="expects scale to be a number or None"):
        compiled(q, k, v, torch.tensor(0.5))


def test_jax_tracers_are_named():
    jax = pytest.importorskip("jax")
    q = jax.numpy.ones((1, 2, 20, 64), "float16")
    with pytest.raises(TypeError, match="expects q to be an array of plain memory, but got a value that JAX"):
        jax.jit(lambda x: flashcore.attention(x, x, x))(q)
