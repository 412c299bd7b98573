"""``flashcore.attention`` with score_mod, mask_mod, or tensors beside q, k, v and bias."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

from flashcore import _core
from flashcore.arrays import CPU, CUDA_HOST, library_of, run_on_stream, wrap_on_host
from flashcore.clauses import CLAUSES, NEW_ROWS, Beside, expect_pairs, words_of
from flashcore.clauses import prepare as prepare_clause
from flashcore.errors import GradientError, UnsupportedError
from flashcore.options import Further, Options
from flashcore.regions import Mod, trace_mods
from flashcore.resolve import call_for, read_captured, reading
from flashcore.scalars import Capture

__all__ = ["run"]


def run(
    options: Options,
    score_mod: "Mod | None",
    mask_mod: "Mod | None",
    beside: Beside,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
) -> Any:
    """Traces the functions, at each call: what they read may have changed."""
    expect_pairs(tuple(beside))
    if options.scores:
        _expect_rectangle(beside, out)
    if options.blocks:
        _expect_no_blocks_with(options, beside)
    traced = trace_mods(score_mod, mask_mod)
    captures = [capture.array for capture in traced.captures]
    _refuse_gradients([q, k, v, bias, *beside.values(), *captures])
    clauses = tuple(name for name in CLAUSES if name in beside)
    tensors = (
        *(prepare_clause(name, beside[name]) for name in clauses),
        *(_prepare(capture, q) for capture in traced.captures),
    )
    names = [CLAUSES[name].tensor for name in clauses]
    names += [f"capture{i}" for i in range(len(traced.captures))]
    places = tuple(read_captured(*each, options.layout) for each in zip(names, tensors))
    named = dict(zip((*clauses, *names[len(clauses) :]), tensors))
    _expect_own_memory(beside, {"q": q, "k": k, "v": v, "bias": bias}, named, out)
    further = Further(words_of(clauses), traced.regions.words())
    call = call_for(options, further, places)
    with reading(tensors):
        if stream is None:
            return call.run(q, k, v, bias, out, None)
        return run_on_stream(call.run, (q, k, v, bias, out), stream)


def _expect_own_memory(
    beside: Beside, inputs: Dict[str, Any], named: Dict[str, Any], out: Any
) -> None:
    """What a call writes shares no memory with what it reads besides.

    named: what clauses and functions read. Of out with q, k, v and bias, ``_core.Call``
    sees to that.
    """
    appends = NEW_ROWS[0] in beside
    if out is None and not appends:
        return
    outputs = dict(zip(("out", "the lse of out"), out if isinstance(out, tuple) else (out,)))
    pairs = [(output, other) for output in outputs for other in named if out is not None]
    if appends:
        pairs += [(cache, other) for cache in "kv" for other in ("q", "bias", *named)]
        if "page_table" not in beside:  # which says what rows of a pool are written
            pairs.append(("k", "v"))
    arrays = {**inputs, **named, **outputs}
    views = {
        name: _core.view(arrays[name], None, name)
        for name in dict.fromkeys(name for pair in pairs for name in pair)
        if arrays[name] is not None
    }
    for written, other in pairs:
        if written in views and other in views and _core.overlap(views[written], views[other]):
            raise ValueError(
                f"expects {written} in memory of its own, as the call writes it, but it overlaps "
                f"{other}: pass a copy"
            )


def _expect_rectangle(beside: Beside, out: Any) -> None:
    """Of scores that are returned."""
    for name in ("cu_seqlens_q", "page_table"):
        if name in beside:
            raise UnsupportedError(
                f"expects no scores with {name}, but got both: call it for each sequence, or "
                "gather the pages first"
            )
    if out is not None:
        raise ValueError(
            "expects out=None with scores, but got an array: all results are made by the call"
        )


def _expect_no_blocks_with(options: Options, beside: Beside) -> None:
    """What kernels do not combine with lists of blocks."""
    for name in ("cu_seqlens_q", "page_table", "scores"):
        if name in beside or (name == "scores" and options.scores):
            raise UnsupportedError(
                f"expects no block_mask with {name}, but got both: leave block_mask out, which "
                "changes no result where it is that of the mask"
            )


def _prepare(capture: Capture, q: Any) -> Any:
    """A tensor as kernels read it, copied where it is not."""
    array = capture.array
    library = library_of(array)
    if library is None:
        array = wrap_on_host("a captured tensor", array)
        library = library_of(array)
    if library is None:
        if capture.converted:
            raise UnsupportedError(
                f"expects captured tensors that need not be converted to {capture.converted}, of a "
                f"library that is not PyTorch, NumPy or CuPy, but got {capture.dtype}"
            )
        return array
    if capture.converted:
        _check_range(capture, array)
        array = library.convert(array, capture.converted)
    elif capture.is_backwards:
        array = library.dense(array)
    if capture.rank == 0:  # PyTorch takes a number on the host with tensors anywhere
        array = library.beside(array, q)
    return array


def _check_range(capture: Capture, array: Any) -> None:
    """Of whole numbers that lose bits, where looking at them waits for no GPU."""
    view = _core.view(array, None, "a captured tensor")
    if capture.dtype != "int64" or view.device[0] not in (CPU, CUDA_HOST) or 0 in view.shape:
        return
    low, high = int(array.min()), int(array.max())
    if low < -(1 << 31) or high >= 1 << 31:
        raise ValueError(
            f"expects captured tensors of int64 whose values fit in int32, but got {low} to {high}"
        )


def _refuse_gradients(tensors: List[Any]) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not any(getattr(x, "requires_grad", False) for x in tensors):
        return
    if torch.is_grad_enabled():
        raise GradientError(
            "flashcore.attention with score_mod or mask_mod, ALiBi, sinks, lengths, pages, scores, dropout or new rows "
            "has no backward pass: expects tensors that need no gradient, but got one with requires_grad; "
            "call it under torch.no_grad() or detach() its arguments and what the functions read"
        )
