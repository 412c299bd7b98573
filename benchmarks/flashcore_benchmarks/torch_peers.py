"""The attentions that FlashCore is timed beside: those of PyTorch, and the
flash-attn packages where they are installed."""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
}


class Unsupported(Exception):
    """A contender that cannot compute a problem; the text says why."""


def _has_causal_flag(problem):
    """Whether PyTorch's is_causal, which starts at the top left, says it
    all."""
    is_aligned = problem.is_top_left or problem.seqlen_q == problem.seqlen_k
    return is_aligned and not problem.has_window and not problem.bias


def _additive_mask(inputs):
    """Bias and mask as PyTorch takes them, or None where there is neither."""
    problem = inputs.problem
    mask = inputs.bias
    if mask is not None:
        mask = mask.to(DTYPES[problem.dtype])
    if not problem.causal and not problem.has_window:
        return mask
    queries = torch.arange(problem.seqlen_q, device="cuda")
    keys = torch.arange(problem.seqlen_k, device="cuda")
    shown = problem.visible(queries[:, None], keys)
    if mask is None:
        mask = torch.zeros((), dtype=DTYPES[problem.dtype], device="cuda")
    return torch.where(shown, mask, float("-inf"))


def _sdpa(backend):
    def make(inputs):
        problem = inputs.problem
        if problem.softcap:
            raise Unsupported("PyTorch's attention has no softcap")
        options = {}
        if problem.causal and _has_causal_flag(problem):
            options["is_causal"] = True
        elif problem.causal or problem.has_window or problem.bias:
            options["attn_mask"] = _additive_mask(inputs)
        if problem.scale:
            options["scale"] = problem.scale
        if problem.heads_q != problem.heads_kv:
            options["enable_gqa"] = True

        def call(i):
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(
                    *inputs.set(i), **options
                )

        return call

    return make


def _math(inputs):
    problem = inputs.problem
    scores = (
        problem.batch * problem.heads_q * problem.seqlen_q * problem.seqlen_k
    )
    if 4 * scores > 4 << 30:
        raise Unsupported("its scores take more than 4 GiB")
    return _sdpa(SDPBackend.MATH)(inputs)


def _flex_score(inputs):
    """Softcap and bias of a score, or None."""
    problem, bias = inputs.problem, inputs.bias
    if not problem.softcap and bias is None:
        return None
    if bias is not None:
        bias = bias.expand(*inputs.q[0].shape[:3], problem.seqlen_k)

    def score_mod(score, b, h, q, k):
        if problem.softcap:
            score = torch.tanh(score / problem.softcap) * problem.softcap
        return score if bias is None else score + bias[b, h, q, k]

    return score_mod


def _flex(inputs):
    from torch.nn.attention.flex_attention import (
        create_block_mask,
        flex_attention,
    )

    problem = inputs.problem
    torch._dynamo.config.recompile_limit = 512
    mask = None
    if problem.causal or problem.has_window:
        mask = create_block_mask(
            lambda b, h, q, k: problem.visible(q, k),
            None,
            None,
            problem.seqlen_q,
            problem.seqlen_k,
            device="cuda",
        )
    compiled = torch.compile(flex_attention, dynamic=False)
    is_grouped = problem.heads_q != problem.heads_kv
    return lambda i: compiled(
        *inputs.set(i),
        score_mod=_flex_score(inputs),
        block_mask=mask,
        scale=problem.scale,
        enable_gqa=is_grouped,
    )


def _flash_attn_options(problem):
    """What the packages are told beside the tensors; only what a problem has,
    since their versions differ."""
    if problem.bias:
        raise Unsupported("it has no bias")
    if problem.is_top_left and problem.seqlen_q != problem.seqlen_k:
        raise Unsupported("its causal mask ends at the bottom right")
    options = {"causal": problem.causal}
    if problem.has_window:
        sides = (-1 if side is None else side for side in problem.window)
        options["window_size"] = tuple(sides)
    if problem.softcap:
        options["softcap"] = problem.softcap
    if problem.scale:
        options["softmax_scale"] = problem.scale
    return options


def _flash_attn(module_name):
    """The flash-attn packages, which take (batch, seqlen, heads, head_dim)."""

    def make(inputs):
        try:
            module = __import__(module_name)
        except ImportError:
            raise Unsupported(f"the package {module_name} is not installed")
        options = _flash_attn_options(inputs.problem)

        def call(i):
            q, k, v = (x.transpose(1, 2) for x in inputs.set(i))
            o = module.flash_attn_func(q, k, v, **options)
            return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)

        return call

    return make


PEERS = {
    "fa2": _sdpa(SDPBackend.FLASH_ATTENTION),
    "cudnn": _sdpa(SDPBackend.CUDNN_ATTENTION),
    "efficient": _sdpa(SDPBackend.EFFICIENT_ATTENTION),
    "math": _math,
    "flash-attn": _flash_attn("flash_attn"),
    "flash-attn-3": _flash_attn("flash_attn_interface"),
    "flex": _flex,
}
