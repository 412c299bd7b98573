"""``flashcore.attention``: attention on arrays of any library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Literal, Optional, Tuple, TypedDict, TypeVar, overload

# Again: that which replaced __init__.py does not ask.
from flashcore import distribution as _distribution
from flashcore import _core
from flashcore.errors import GradientError
from flashcore.kinds import read
from flashcore.options import (
    Causal, Device, Layout, Mods, Options, Stage, Window, has_few_queries, make_options,
)  # fmt: skip
from flashcore.problem import schedule_with

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["AttentionOptions", "attention"]

#: Of one library.
Array = TypeVar("Array")


class AttentionOptions(TypedDict, total=False):
    """The keyword arguments of :func:`attention`, but for lse and scores, for type checkers."""

    causal: Causal
    window: Window
    softcap: Optional[float]
    scale: Optional[float]
    bias: Any
    score_mod: Optional[Callable[..., Any]]
    mask_mod: Optional[Callable[..., Any]]
    head_scales: Any
    alibi_slopes: Any
    sinks: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    max_seqlen_q: Optional[int]
    seqused_k: Any
    page_table: Any
    dropout_p: float
    rng: Any
    k_new: Any
    v_new: Any
    rotary_cos: Any
    rotary_sin: Any
    rotary_interleaved: bool
    block_mask: Any
    layout: Layout
    out: Any
    stream: Any
    schedule: Any
    device: Optional[Device]
    static: bool
    batch_invariant: bool


#: That object, which is told from others without a look at what they are.
_NO_DROPOUT = 0.0


@overload
def attention(
    q: Array, k: Array, v: Array, *, lse: Literal[False] = ..., scores: None = ...,
    **options: Unpack[AttentionOptions],
) -> Array: ...  # fmt: skip


@overload
def attention(
    q: Array, k: Array, v: Array, *, lse: Literal[True], scores: None = ...,
    **options: Unpack[AttentionOptions],
) -> Tuple[Array, Array]: ...  # fmt: skip


@overload
def attention(
    q: Array, k: Array, v: Array, *, lse: Literal[False] = ..., scores: Stage,
    **options: Unpack[AttentionOptions],
) -> Tuple[Array, Array]: ...  # fmt: skip


@overload
def attention(
    q: Array, k: Array, v: Array, *, lse: Literal[True], scores: Stage,
    **options: Unpack[AttentionOptions],
) -> Tuple[Array, Array, Array]: ...  # fmt: skip


@overload
def attention(
    q: Array, k: Array, v: Array, *, lse: bool, scores: Optional[Stage] = ...,
    **options: Unpack[AttentionOptions],
) -> Any: ...  # fmt: skip


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Causal = False,
    window: Window = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    bias: Any = None,
    score_mod: Optional[Callable[..., Any]] = None,
    mask_mod: Optional[Callable[..., Any]] = None,
    head_scales: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    seqused_k: Any = None,
    page_table: Any = None,
    dropout_p: float = _NO_DROPOUT,
    rng: Any = None,
    k_new: Any = None,
    v_new: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    rotary_interleaved: bool = False,
    block_mask: Any = None,
    lse: bool = False,
    scores: Optional[Stage] = None,
    layout: Layout = "bhsd",
    out: Any = None,
    stream: Any = None,
    schedule: Any = None,
    device: Optional[Device] = None,
    static: bool = False,
    batch_invariant: bool = False,
    **unknown: Any,
) -> Any:
    """softmax(score_mod(softcap(scale * q k^T) + bias), masked) v.

    Takes PyTorch tensors, NumPy arrays (bfloat16 by ml_dtypes), and anything
    with ``__dlpack__``; returns an array of the same library. On a GPU the call
    is asynchronous, in the current stream of that library, and may be captured
    into a CUDA graph once it was called with such arguments before. Arrays in
    host memory run on the emulator, which checks every access. docs/PyTorch.md
    says which gradients there are.

    q: (batch, heads_q, seqlen_q, head_dim), of float16 or bfloat16.
    k: (batch, heads_kv, seqlen_k, head_dim), of the type of q.
    v: (batch, heads_kv, seqlen_k, head_dim_v), of the type of q. heads_q is a
        multiple of heads_kv: query head h reads head h // (heads_q // heads_kv).
        Any strides do, but rows that are not aligned to 16 bytes (or whose
        elements lie apart) are copied first.
    causal: False; True or "bottom_right": the last query sees the last key, and
        each query before it one key less; "top_left": the first query sees the
        first key only.
    window: keys to the left of a query's own that it sees, or (left, right);
        None or -1 is unbounded. A query's own key is that of "bottom_right".
    softcap: scores become softcap * tanh(score / softcap).
    scale: of q k^T; 1 / sqrt(head_dim) by default. As softcap, a number and no array,
        positive and normal in float32.
    bias: added to the scores after scale and softcap; -inf hides a key. Of
        float16, bfloat16 or float32, and broadcast to (batch, heads_q,
        seqlen_q, seqlen_k).
    score_mod: a function of (score, batch, head, q_idx, kv_idx), such as that of
        FlexAttention, which returns the score that takes the place of it: the
        score is a float32, the others whole numbers. It is called once, with values
        that record operators, torch.exp and others, flashcore.where and others,
        and reads of tensors; docs/Python.md lists what it may do. A number that it
        uses is a part of the kernel, a tensor is data.
    mask_mod: a function of (batch, head, q_idx, kv_idx), which returns whether the
        query sees the key, a bool. What causal and window hide stays hidden.
    head_scales: float32 (heads_q): a finite number, of any sign, that the scores of a
        head are multiplied by beside scale, before softcap, as learned temperatures
        (scale=1 with cosine attention, as in Swin v2).
    alibi_slopes: float32 (heads_q): -slope * |i + seqlen_k - seqlen_q - j| is added
        to the score of query i and key j.
    sinks: float32 (heads_q): a logit that takes part in the softmax of each row and
        has no value, as in GPT-OSS.
    cu_seqlens_q: int32 (sequences + 1): q, k and v are of batch 1 and hold sequences
        back to back. Sequence b has the queries from cu_seqlens_q[b] to before
        cu_seqlens_q[b + 1]; entries do not fall and lie within q. Masks, ALiBi and
        the functions count from the beginning of each, with b for the batch; there
        is no bias. Rows of no sequence, in front of the first and behind the last,
        are not written.
    cu_seqlens_k: the same of keys, of as many entries; both or none are given, but
        with page_table.
    max_seqlen_q: with cu_seqlens_q, how many queries the longest sequence has, about:
        there is a kernel for 16 or fewer, and one for more. By default the mean says
        which; either is right for any lengths.
    seqused_k: int32 (batch), or (sequences) with cu_seqlens: how many keys of each
        batch entry, from its first on, are there. It is the seqlen_k of all that is
        said of masks and ALiBi; what lies behind is not looked at.
    page_table: int32 (batch, pages of each), or (sequences, pages of each) with
        cu_seqlens_q: a paged cache. k and v are (pages, heads_kv, page_size,
        head_dim), or (pages, page_size, heads_kv, head_dim) with layout="bshd"; each
        page_size has a kernel. Entry (b, p) names the page that holds keys
        p * page_size and on of batch entry b, whose seqlen_k is that of all pages of
        its row, unless seqused_k says less: then neither pages behind nor their
        entries are looked at. With cu_seqlens_q it takes the place of cu_seqlens_k,
        and seqused_k is needed. There is no bias.
    dropout_p: the probability that an element of P = softmax(...) is dropped on its way
        to v: o is (P * kept / (1 - dropout_p)) v, and lse that of all keys. It is
        rounded to a multiple of 2^-16. 0 is no dropout, and rng is not looked at.
    rng: int64 (2,), seed and offset, where q is. Which elements are kept is a function
        of both and of the batch entry, the head, the query and the key, the same for
        every kernel and device; docs/Op.md has it. They are data: a CUDA graph draws
        anew when they change.
    k_new: rows to append, with those of v_new: of the sizes of k and v but for batch, that of q, and
        for their own number of rows. Before anything else is done, row i of them
        becomes key seqused_k[b] + i of batch entry b, in k and v, which are written in
        place, through page_table where there is one; seqused_k, which is needed, stays
        as it is. The keys of b are then seqused_k[b] and the rows of k_new in all
        that is said of masks and ALiBi. Rows that k or its pages have no room for are
        not written. No two entries may append to one place. Not with cu_seqlens_q.
    v_new: the same of v.
    rotary_cos: (positions, rotary_dim / 2) of the type of q, with rotary_sin and k_new: a
        rotary embedding, which turns row i of k_new, before it is written, by position
        seqused_k[b] + i, and row i of q by the same position if there is a causal mask
        or a window, else all rows of q by position seqused_k[b]. In float32, rounded
        once.
    rotary_sin: the sines, as rotary_cos has the cosines.
    rotary_interleaved: pairs are columns 0 and 1, 2 and 3, and so on (GPT-J); False: 0 and
        rotary_dim / 2, and so on (GPT-NeoX).
    block_mask: ``BlockLists``, or a BlockMask of FlexAttention, whose lists alone are
        used: the blocks of queries and keys that are computed, for masks that are data.
        In full blocks every key is seen; in the others causal, window and mask_mod say
        which. Blocks in no list are not looked at, so the lists must be those of the
        mask, or hide what else they leave out. ``block_lists`` makes them of an array.
        Not with cu_seqlens, page_table or scores.
    lse: return (o, lse), with the natural logarithm of the sum of each row's
        exponentials, that of its sink among them: float32 (batch, heads_q,
        seqlen_q). A query that sees no key has an o of 0, and an lse of -inf or
        its sink.
    scores: return the scores too, last: float32 (batch, heads_q, seqlen_q,
        seqlen_k), hidden keys and all, as they are at a stage: "scaled", scale *
        q k^T; "capped", behind softcap; "changed", behind bias, ALiBi and score_mod;
        "masked", with -inf where a key is hidden; or "probabilities", the weights
        of the rows of v, which are 0 there. Behind seqused_k they are 0 up to
        "changed". A kernel of its own writes them, after the attention. Not with
        cu_seqlens or page_table.
    layout: "bhsd", or "bshd" for q, k, v and o of (batch, seqlen, heads,
        head_dim).
    out: where o goes, or (o, lse) with lse=True, in memory that no other argument lies in.
        It is returned. None with scores.
    stream: a CUstream as int, or an object with cuda_stream, ptr or
        __cuda_stream__; the library's current stream by default.
    schedule: choices for the kernel, such as {"block_n": 64}; see
        ``flashcore-compile --help``.
    device: None: where the arrays are. For arrays in host memory also "cuda"
        (copied there and back), "emulator", or "reference" (double precision).
    static: compile a kernel for these sizes. By default one kernel serves all
        sizes but those of head_dim; decoding (one query) has its own.
    batch_invariant: o and lse of a query are the same to the bit whatever the batch,
        the heads, the number of queries and its place among them, and however much
        longer the keys are that causal, window or lengths hide from it;
        docs/Python.md says what that takes. The same as invariance="batch" in
        ``schedule``.

    Returns o: (batch, heads_q, seqlen_q, head_dim_v) of the type of q, in
    memory ordered as q; or (o, lse), (o, scores) or (o, lse, scores).

    Raises ValueError and TypeError for arguments that do not fit (for what
    score_mod and mask_mod do, TypeError with file and line), UnsupportedError for
    what the compiler has no kernel for, GradientError for a gradient that nothing
    computes (docs/PyTorch.md lists what does), NoDeviceError without a GPU, KernelFault
    for a finding of the emulator, and Error for what else fails.
    """
    if unknown:
        from flashcore.foreign_names import refuse

        refuse(attention, unknown)
    if dropout_p is _NO_DROPOUT or read("dropout_p", dropout_p) == 0:
        rng = None  # which is not looked at
    # In the order of CLAUSES.
    beside: Tuple[Any, ...] = (
        head_scales, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, k_new,
        v_new, rotary_cos, rotary_sin, rng,
    )  # fmt: skip
    few = None if max_seqlen_q is None else has_few_queries(max_seqlen_q, cu_seqlens_q)
    block_size: Any = None
    mods: Optional[Mods] = None
    has_functions = score_mod is not None or mask_mod is not None
    is_seen_by_torch = "torch" in sys.modules and is_traced(q)
    functions: Any = None
    if has_functions:
        functions = _read_functions(is_seen_by_torch, score_mod, mask_mod)
    if has_functions and functions is None:
        from flashcore.operators.traced_mods import untraced

        return untraced(
            attention, q, k, v, causal=causal, window=window, softcap=softcap, scale=scale, bias=bias,
            score_mod=score_mod, mask_mod=mask_mod, head_scales=head_scales,
            alibi_slopes=alibi_slopes, sinks=sinks, cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, seqused_k=seqused_k,
            page_table=page_table, dropout_p=dropout_p, rng=rng, k_new=k_new, v_new=v_new,
            rotary_cos=rotary_cos, rotary_sin=rotary_sin, rotary_interleaved=rotary_interleaved,
            block_mask=block_mask, lse=lse, scores=scores, layout=layout, out=out, stream=stream,
            schedule=schedule, device=device, static=static, batch_invariant=batch_invariant,
        )  # fmt: skip
    if block_mask is not None or has_functions:
        lists: Tuple[Any, ...] = (None, None, None, None)
        captures: Tuple[Any, ...] = ()
        if block_mask is not None:
            from flashcore.blocks import read_lists

            block_size, lists = read_lists(block_mask)
        if has_functions:
            mods, captures = functions
        beside = (*beside, *lists, *captures)
    options = (
        causal, window, softcap, scale, lse, layout, schedule, device, static, batch_invariant,
        scores, dropout_p, rotary_interleaved, few, block_size, mods,
    )  # fmt: skip
    if is_seen_by_torch:
        return _traced(options, beside, score_mod, mask_mod, q, k, v, bias, out, stream)
    try:
        if stream is None:
            if is_profiled():
                return _profiled(options, beside, q, k, v, bias, out)
            return _calls.run(q, k, v, bias, out, None, beside, *options)
        from flashcore.arrays import run_on_stream

        return run_on_stream(
            lambda *arguments: _calls.run(*arguments, beside, *options),
            (q, k, v, bias, out), stream,
        )  # fmt: skip
    except GradientError:
        from flashcore.operators import gradients

        if out is not None or stream is not None or gradients.on_grad() == "error":
            raise
        return _with_gradients(options, beside, score_mod, mask_mod, q, k, v, bias)


#: Of the tuple of options, those that PyTorch's operators have.
_OF_OPERATORS = (
    "causal", "window", "softcap", "scale", "lse", "layout", "schedule", "device", "static",
)  # fmt: skip


#: Those behind these and batch_invariant.
_OF_CLAUSES = (
    "scores", "dropout_p", "rotary_interleaved", "has_few_queries", "block_size", "mods",
)  # fmt: skip


def _for_operators(options: Tuple[Any, ...], beside: Tuple[Any, ...]) -> Any:
    """What an operator takes; None for a call with more than these have."""
    _, scores, _, _, few, block_size, mods = options[len(_OF_OPERATORS) :]
    has_more = any(array is not None for array in beside) or block_size or mods
    if has_more or scores is not None or few is not None:
        return None
    return _with_schedule(options)


def _with_schedule(options: Tuple[Any, ...]) -> Dict[str, Any]:
    """The options that operators have, and batch_invariant as their schedule."""
    known = dict(zip(_OF_OPERATORS, options))
    known["schedule"] = schedule_with(known["schedule"], options[len(_OF_OPERATORS)])
    return known


def _read_functions(is_seen_by_torch: bool, score_mod: Any, mask_mod: Any) -> Any:
    """What functions are to a kernel, and what they read; None where torch.compile cannot
    tell when that changes."""
    if is_seen_by_torch:
        from flashcore.operators import traced_mods

        return traced_mods.read(score_mod, mask_mod)
    from flashcore.mods import read_mods

    return read_mods(score_mod, mask_mod)


def _traced(
    options: Tuple[Any, ...],
    beside: Tuple[Any, ...],
    score_mod: Any,
    mask_mod: Any,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
) -> Any:
    """A call that PyTorch must see as an operator."""
    from flashcore.operators import autocast, custom, gradients
    from flashcore.tensor_arguments import expect_tensors

    expect_tensors(q=q, k=k, v=v)
    if q.is_nested or k.is_nested or v.is_nested:  # jagged: others are none of PyTorch's own
        return _jagged(options, beside, score_mod, mask_mod, q, k, v, bias, out, stream)
    if type(q).__name__ == "DTensor":
        from flashcore.operators import sharding  # noqa: F401 (its rules)
    beside = custom.as_tensors(beside, q)
    if not custom.appends(beside):
        q, k, v = autocast.cast(q, k, v)
    known = _for_operators(options, beside)
    if known is not None:
        return custom.attention(q, k, v, bias=bias, out=out, stream=stream, **known)
    custom.expect_traceable(out, stream)
    if gradients.needs_gradient(q, k, v, bias, *beside) and not gradients.is_exporting():
        if gradients.on_grad() == "error":
            gradients.refuse("flashcore.attention")
        checked = custom.constant_options(options)
        return _by_formula(checked, beside, score_mod, mask_mod, q, k, v, bias)
    more = dict(zip(_OF_CLAUSES, options[len(_OF_OPERATORS) + 1 :]))
    return custom.attention_with(q, k, v, bias, beside, **_with_schedule(options), **more)


_LAYOUT = _OF_OPERATORS.index("layout")


def _jagged(
    options: Tuple[Any, ...],
    beside: Tuple[Any, ...],
    score_mod: Any,
    mask_mod: Any,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
) -> Any:
    """A call of nested tensors."""
    from flashcore.operators import custom, jagged

    custom.expect_traceable(out, stream)
    of_rows = (*options[:_LAYOUT], "bshd", *options[_LAYOUT + 1 :])

    def run(q: Any, k: Any, v: Any, beside: Tuple[Any, ...]) -> Any:
        if is_traced(q):
            return _traced(of_rows, beside, score_mod, mask_mod, q, k, v, None, None, None)
        try:
            return _calls.run(q, k, v, None, None, None, beside, *of_rows)
        except GradientError:
            from flashcore.operators import gradients

            if gradients.on_grad() == "error":
                raise
            return _with_gradients(of_rows, beside, score_mod, mask_mod, q, k, v, None)

    return jagged.attend(run, options[_LAYOUT], beside, q, k, v, bias)


def _with_gradients(
    options: Tuple[Any, ...],
    beside: Tuple[Any, ...],
    score_mod: Any,
    mask_mod: Any,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
) -> Any:
    """An eager call some of whose tensors need gradients. Raises GradientError for those
    that nothing computes."""
    from flashcore.operators import autocast, custom
    from flashcore.resolve import check_tensors
    from flashcore.tensor_arguments import expect_tensors

    expect_tensors(q=q, k=k, v=v)
    q, k, v = autocast.cast(q, k, v)
    known = _for_operators(options, beside)
    if known is not None:
        return custom.attention(q, k, v, bias=bias, is_traced=False, **known)
    checked = make_options(*options)
    check_tensors(checked, q, k, v, bias, beside)
    return _by_formula(checked, beside, score_mod, mask_mod, q, k, v, bias)


def _by_formula(
    checked: Options,
    beside: Tuple[Any, ...],
    score_mod: Any,
    mask_mod: Any,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
) -> Any:
    """A call with clauses or functions, and gradients by PyTorch's operators."""
    from flashcore.beside import name_all
    from flashcore.operators import formula, gradients
    from flashcore.resolve import call_for

    given = name_all(checked, beside)
    if not formula.takes(checked, score_mod, mask_mod, given):
        names = [*given, *(("scores",) if checked.scores else ())]
        gradients.refuse("flashcore.attention", f"it has {', '.join(names)}")

    def attend(options: Options, q: Any, k: Any, v: Any) -> Any:
        return call_for(options).run(q, k, v, None, None, None, beside)

    return formula.with_gradients(attend, checked, score_mod, mask_mod, given, q, k, v, bias)


def is_profiled() -> bool:
    """Whether PyTorch's profiler is on, which sees no call that is no operator by itself."""
    return False


def _profiled(options: Any, beside: Any, q: Any, k: Any, v: Any, bias: Any, out: Any) -> Any:
    """The same call as an event of the profiler, by the name of the operator."""
    with sys.modules["torch"].profiler.record_function("flashcore::attention"):
        return _calls.run(q, k, v, bias, out, None, beside, *options)


def is_traced(q: Any) -> bool:
    """Whether PyTorch must see a call as an operator.

    That is while torch.compile, torch.export or torch.jit trace it, under the
    transforms of torch.func and forward-mode differentiation, for modes that watch
    operators, and for tensors that are none, such as fake ones.
    """
    global is_profiled, is_traced
    try:
        is_traced = _make_is_traced(sys.modules["torch"])  # type: ignore[assignment]
    except AttributeError:  # another thread imports it
        return False
    is_profiled = getattr(
        getattr(sys.modules["torch"]._C, "_autograd", None), "_profiler_enabled", is_profiled
    )
    return is_traced(q)


def _make_is_traced(torch: Any) -> Callable[[Any], bool]:
    """The same with what it asks of PyTorch looked up, which is most of its time."""
    tensor = torch.Tensor
    is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    dispatch_modes = torch._C._len_torch_dispatch_stack
    transforms = torch._C._functorch.peek_interpreter_stack
    tracing_state = torch._C._get_tracing_state
    forward_ad = torch.autograd.forward_ad

    def is_traced(q: Any) -> bool:
        if type(q) is not tensor:
            return isinstance(q, tensor)
        return (
            is_dynamo_compiling()
            or dispatch_modes() > 0
            or transforms() is not None
            or tracing_state() is not None
            or forward_ad._current_level >= 0
        )

    return is_traced


def _make_call(*options: Any) -> "_core.Call":
    """The call of options as :func:`attention` has them, in the order of :func:`make_options`."""
    from flashcore.resolve import call_for

    return call_for(make_options(*options))


def _new_calls() -> "_core.Calls":
    """What runs attention with options that were seen before, by their values and types."""
    return _core.make_calls(_make_call)


_calls = _new_calls()
