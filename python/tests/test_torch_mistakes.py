"""Mistakes: over the arguments of the public functions, each answered by one sentence that has the
argument's name. No error comes from inside, and none is taken without a word."""

import pytest

torch = pytest.importorskip("torch")

import flashcore
import flashcore.transformers
from flashcore import flash_attn as fa, flash_attn_interface as f3
from flashcore.kernels import export

B, H, S, K, D = 2, 4, 16, 24, 32


def half(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).half()


def i32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


q, k, v = half(B, H, S, D), half(B, H, K, D), half(B, H, K, D)
sq, sk, sv = (x.transpose(1, 2) for x in (q, k, v))
#: Two sequences back to back, and paged and plain caches.
vq, vk, vv, cu, cu_k = half(24, H, D), half(30, H, D), half(30, H, D), i32(0, 10, 24), i32(0, 12, 30)
cache, pool, table = half(B, 40, H, D), half(6, 16, H, D), i32(0, 1, 2, 3).view(2, 2)
o, lse = flashcore.attention(q, k, v, lse=True)
grad = q.clone().requires_grad_()
vgrad, sgrad = vq.clone().requires_grad_(), sq.clone().requires_grad_()
keep = torch.rand(S, K) < 0.5


def attention(*tensors, **options):
    return lambda: flashcore.attention(*(tensors or (q, k, v)), **options)


def flex(*tensors, **options):
    return lambda: flashcore.flex_attention(*(tensors or (q, q, q)), **options)


def merge(outputs=None, lses=None, **options):
    outputs, lses = [o, o] if outputs is None else outputs, [lse, lse] if lses is None else lses
    return lambda: flashcore.merge(outputs, lses, **options)


def func(*tensors, module=fa, **options):
    return lambda: module.flash_attn_func(*(tensors or (sq, sk, sv)), **options)


def varlen(*tensors, module=fa, most=(14, 18), ends=(cu, cu_k), **options):
    return lambda: module.flash_attn_varlen_func(*(tensors or (vq, vk, vv)), *ends, *most, **options)


def kvcache(*tensors, module=fa, **options):
    return lambda: module.flash_attn_with_kvcache(*(tensors or (sq, cache, cache)), **options)


def combine(out=None, lses=None, **options):
    parts = torch.stack([o.transpose(1, 2)] * 2) if out is None else out
    of_rows = torch.stack([lse.transpose(1, 2)] * 2) if lses is None else lses
    return lambda: f3.flash_attn_combine(parts, of_rows, **options)


def precompile(problems=("b1 h2 s16 d32",), folder="somewhere", **options):
    return lambda: flashcore.cache.precompile(problems, folder, **options)


def fc_mask(*arguments):
    return lambda: flashcore.mask(*arguments)


CASES = {
    # flashcore.attention
    "q": (attention(None, k, v), "q"),
    "q of float32": (attention(q.float(), k, v), "q of float16 or bfloat16"),
    "k of another type": (attention(q, k.bfloat16(), v), "k of the type of q"),
    "k of another head_dim": (attention(q, k[..., :16], v), "head_dim of k"),
    "v of other rows": (attention(q, k, v[:, :, :20]), "seqlen of v"),
    "heads": (attention(q, k[:, :3], v[:, :3]), "heads of q to be a multiple"),
    "causal": (attention(causal="upper"), "causal to be one of"),
    "window": (attention(window="5"), "window to be"),
    "softcap": (attention(softcap=-1.0), "softcap to be"),
    "scale": (attention(scale=0.0), "scale to be"),
    "scale of a tensor": (attention(scale=torch.tensor(1.0)), r"scale to be a number or None.*float\(scale\)"),
    "bias": (attention(bias=half(S, K + 1)), "bias to be broadcastable"),
    "bias of bool": (attention(bias=keep), "bias of float16"),
    "score_mod": (attention(score_mod=3), "score_mod to be"),
    "mask_mod": (attention(mask_mod=keep), "mask_mod to be"),
    "mask_mod that returns a number": (attention(mask_mod=lambda b, h, i, j: i), "mask_mod"),
    "mask_mod that branches": (attention(mask_mod=lambda b, h, i, j: i if i > j else j), r"test_torch_mistakes.py:\d+: "),
    "head_scales": (attention(head_scales=torch.ones(3)), r"head_scales of \(4,\)"),
    "alibi_slopes": (attention(alibi_slopes=half(4)), "alibi_slopes of float32"),
    "sinks": (attention(sinks=torch.ones(4, 1)), "sinks to have one axis"),
    "cu_seqlens_q alone": (attention(vq[None].transpose(1, 2), k[:1], v[:1], cu_seqlens_q=cu), "cu_seqlens_q and cu_seqlens_k together"),
    "seqused_k": (attention(seqused_k=i32(1, 2, 3)), r"seqused_k of \(2,\)"),
    "seqused_k of int64": (attention(seqused_k=i32(1, 2).long()), "seqused_k of int32"),
    "page_table": (attention(page_table=table[0]), "page_table to have 2 axes"),
    "max_seqlen_q": (attention(max_seqlen_q=4), "no max_seqlen_q without cu_seqlens_q"),
    "max_seqlen_q below 0": (attention(vq[None].transpose(1, 2), vk[None].transpose(1, 2), vv[None].transpose(1, 2), cu_seqlens_q=cu, cu_seqlens_k=cu_k, max_seqlen_q=-3), "max_seqlen_q of at least 0"),
    "dropout_p": (attention(dropout_p=1.5), "dropout_p to be"),
    "rng": (attention(dropout_p=0.5), "rng, seed and offset"),
    "k_new alone": (attention(k_new=k), "k_new and v_new together"),
    "rotary_cos alone": (attention(rotary_cos=half(40, 16)), "rotary_cos"),
    "block_mask": (attention(block_mask=keep), "block_mask to be"),
    "lse": (attention(lse=1), "lse to be a bool"),
    "scores": (attention(scores="softmaxed"), "scores to be one of"),
    "layout": (attention(layout="bsdh"), "layout to be one of"),
    "out": (attention(out=half(B, H, S, 16)), "out of"),
    "device": (attention(device="gpu"), "device to be one of"),
    "static": (attention(static="yes"), "static to be a bool"),
    "batch_invariant": (attention(batch_invariant=1), "batch_invariant to be a bool"),
    "another's name": (attention(is_causal=True), "but got is_causal: write causal"),
    # The same where PyTorch computes a call, for its gradients
    "gradient, k": (attention(grad, None, v), "k"),
    "gradient, seqused_k": (attention(grad, k, v, seqused_k=i32(1, 2, 3)), r"seqused_k of \(2,\)"),
    "gradient, bias": (attention(grad, k, v, bias=half(S, K + 1)), "bias to be broadcastable"),
    "gradient, sinks": (attention(grad, k, v, sinks=torch.ones(3)), r"sinks of \(4,\)"),
    "gradient, alibi_slopes": (attention(grad, k, v, alibi_slopes=half(4)), "alibi_slopes of float32"),
    "gradient, cu_seqlens_q alone": (attention(grad[:1], k[:1], v[:1], cu_seqlens_q=i32(0, S)), "cu_seqlens_q and cu_seqlens_k together"),
    "gradient, varlen": (varlen(vgrad, vk, vv, ends=(cu, i32(0, 30)), softcap=2.0), "as many entries"),
    "gradient, int64": (varlen(vgrad, vk, vv, ends=(cu.long(), cu_k), softcap=2.0), "cu_seqlens_q of int32"),
    "gradient, dropout_p": (func(sgrad, sk, sv, dropout_p=1.5), "dropout_p to be"),
    "gradient, heads": (func(sgrad, sk[:, :, :3], sv, dropout_p=0.1), "heads"),
    "gradient, softmax_scale": (func(sgrad, sk, sv, dropout_p=0.1, softmax_scale=-1.0), "softmax_scale to be positive"),
    "gradient, merge": (merge([grad, q], [lse]), r"lses of \(2, 2, 4, 16\)"),
    "gradient, lses of half": (merge([grad, q], [lse.half()] * 2), "lses of float32"),
    "gradient, merge's sinks": (merge([grad, q], sinks=1.0), "sinks to be an array"),
    # flashcore.merge
    "outputs": (merge(3), "outputs to be arrays"),
    "outputs of None": (merge([o, None]), "outputs to be arrays, but got None"),
    "lses": (merge([o, o], 4), "lses to be arrays"),
    "no outputs": (merge([], [lse]), "outputs of one part or more"),
    "outputs of other sizes": (merge([o, o[:, :2]]), "outputs that are all of one type"),
    "merge's sinks": (merge(sinks=torch.ones(3)), r"sinks of float32 \(4,\)"),
    "merge's layout": (merge(layout="x"), "layout to be one of"),
    "merge's device": (merge(device="reference"), "device to be one of"),
    # flashcore.flex_attention and masks
    "query": (flex(None, q, q), "query to be an array"),
    "query's axes": (flex(q[0], q, q), r"query of \(batch, heads, seqlen, head_dim\), but got"),
    "key": (flex(q, [1], q), "key to be an array"),
    "value": (flex(q, q, 3.0), "value to be an array"),
    "enable_gqa": (flex(q, q[:, :2], q[:, :2]), "enable_gqa=True"),
    "return_aux": (flex(return_aux=True), "return_aux to be an AuxRequest"),
    "Flex's block_mask": (flex(block_mask=keep), "block_mask to be a BlockMask"),
    "mask's function": (fc_mask(None), "function to be a function, but got None"),
    "a handle of a handle": (fc_mask(flashcore.score(lambda s, b, h, i, j: s)), "function to be a function"),
    "show_mask's mask_mod": (lambda: flashcore.show_mask(None, 64, 64), "mask_mod to be a function"),
    "show_mask's head": (lambda: flashcore.show_mask(lambda b, h, i, j: i >= j, 64, 64, head=-2), "head to be at least 0"),
    "number": (lambda: flashcore.number(1e300), "value to be a number of float32"),
    "block_lists": (lambda: flashcore.block_lists([[True]]), "mask"),
    # flash-attn 2
    "fa q": (func(None, sk, sv), "q to be a tensor, but got None"),
    "fa window_size": (func(window_size=4), r"window_size to be \(left, right\), but got 4"),
    "fa softcap": (func(softcap=-30.0), "softcap to be 0, for none"),
    "fa softmax_scale": (func(softmax_scale=float("nan")), "softmax_scale to be positive"),
    "fa alibi_slopes": (func(alibi_slopes=[1.0] * 4), "alibi_slopes to be a tensor or None"),
    "fa deterministic": (func(deterministic="yes"), "deterministic to be a bool"),
    "fa return_attn_probs": (func(return_attn_probs=2), "return_attn_probs to be a bool"),
    "fa kv": (lambda: fa.flash_attn_kvpacked_func(sq, None), "kv to be a tensor"),
    "fa qkv": (lambda: fa.flash_attn_qkvpacked_func(half(2, 16, 2, 4, 32)), r"qkv of \(batch, seqlen, 3"),
    "fa varlen q": (varlen(vq[None], vk, vv), r"q of \(total, heads, head_dim\)"),
    "fa cu_seqlens_q": (varlen(ends=(None, cu_k)), "cu_seqlens_q to be a tensor"),
    "fa cu_seqlens_k": (varlen(vq, pool, pool, block_table=table, ends=(cu, [1])), "cu_seqlens_k to be a tensor"),
    "fa max_seqlen_q": (varlen(most=("14", 18)), "max_seqlen_q to be a whole number"),
    "fa max_seqlen_k": (varlen(most=(14, -2)), "max_seqlen_k of at least 0"),
    "fa S_dmask": (varlen(most=(None, 18), dropout_p=0.1, return_attn_probs=True), "max_seqlen_q with dropout_p"),
    "fa k_cache": (kvcache(sq, None, cache), "k_cache to be a tensor"),
    "fa k": (kvcache(k=[1], v=[1]), "k to be a tensor or None"),
    "fa cache_batch_idx": (kvcache(cache_batch_idx=[0, 1]), "cache_batch_idx to be a tensor or None"),
    "fa cache_leftpad": (kvcache(cache_leftpad=2), "cache_leftpad to be a tensor or None"),
    "fa block_table": (kvcache(sq, pool, pool, block_table=[[0]]), "block_table to be a tensor or None"),
    "fa cache_seqlens": (kvcache(cache_seqlens=99), "cache_seqlens"),
    "fa rotary_cos": (kvcache(rotary_cos=True), "rotary_cos to be a tensor or None"),
    # FlashAttention-3
    "f3 q": (func(None, sk, sv, module=f3), "q to be a tensor"),
    "f3 qv": (func(module=f3, qv=sq), "qv=None"),
    "f3 sinks": (func(module=f3, sinks=1.0), "sinks to be a tensor or None"),
    "f3 window_size": (varlen(module=f3, window_size=0), "window_size to be"),
    "f3 attention_chunk": (func(module=f3, attention_chunk=-1), "attention_chunk of at least 0"),
    "f3 cache_seqlens": (kvcache(vq, cache, cache, module=f3, cu_seqlens_q=cu, cache_seqlens=99), "cache_seqlens from 0 to 40"),
    "f3 both tables": (varlen(vq, pool, pool, module=f3, page_table=table, block_table=table), "page_table or block_table"),
    "f3 num_heads_q": (lambda: f3.flash_attn_qkvpacked_func(half(2, 16, 8, 32), num_heads_q=-2), "num_heads_q"),
    "f3 lse_partial": (combine(lses=lse), r"lse_partial of \(splits"),
    "f3 out_dtype": (combine(out_dtype="float16"), "out_dtype of torch.float16"),
    # Deployment
    "precompile's problems": (precompile("b1 h2 s16 d32"), "problems to be a list of words"),
    "precompile's words": (precompile([3]), "problems to be a list of words"),
    "precompile's folder": (precompile(folder=None), "folder to be a path"),
    "precompile's chips": (precompile(chips="sm_80"), "chips to be a list"),
    "precompile's chip": (precompile(chips=[None]), "chips to be of sm_70"),
    "precompile's multiprocessors": (precompile(multiprocessors=0), "multiprocessors of at least 1"),
    "export's chips": (lambda: export("somewhere", chips=[80]), "chips to be of sm_70"),
    "Problem.parse": (lambda: flashcore.Problem.parse(None), "words to be a text"),
    "Problem.parse, NUL": (lambda: flashcore.Problem.parse("b1 h8 s512 d64\0x"), "words to be a text"),
    # Transformers
    "register": (lambda: flashcore.transformers.register(None), "name to be a word"),
    "register eager": (lambda: flashcore.transformers.register("eager"), "name without 'eager'"),
    "register_flash": (lambda: flashcore.transformers.register_flash(3), "name to be a word"),
}


@pytest.mark.parametrize("name", CASES)
def test_mistakes(name):
    call, text = CASES[name]
    if name.startswith("register"):
        pytest.importorskip("transformers", "5.4")
    with pytest.raises((TypeError, ValueError, flashcore.UnsupportedError), match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_there_are_many():
    assert len(CASES) >= 110


def test_what_has_no_row_is_no_mistake():
    """An empty table of pages, and functions of the whole range of their arguments."""
    empty = flashcore.attention(q, half(3, H, 16, D), half(3, H, 16, D), page_table=i32().view(2, 0))
    assert empty.shape == q.shape and not empty.any()
    assert flashcore.merge([grad, q], [lse, lse])[0].requires_grad
