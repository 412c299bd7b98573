"""Tensors beside q, k, v and bias: slopes, sinks, lengths, pages, words of a dropout, new rows.

Each is a clause of the op. They reach a call as tensors that score_mod and mask_mod read do,
in the tuple of ``_core.Call.run`` in front of these.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import contiguous_strides, dense
from flashcore.operands import ANGLES, CLAUSES, ENDS, LENGTHS, LISTS, NEW_ROWS, PAGES, SEED
from flashcore.problem import Problem, row_step
from flashcore.tensors import Tensor, read_tensor

__all__ = ["check", "check_appended", "expect_pairs", "prepare", "read_clause", "words_of"]


#: What the table says of two of them: (kind, argument, argument, hint).
_RELATIONS = tuple(row for row in _core.relations() if row[1] in CLAUSES and row[2] in CLAUSES)


@functools.lru_cache(maxsize=1024)
def words_of(names: Tuple[str, ...]) -> Tuple[str, ...]:
    """Those of ``--shape`` for such arguments, but for words with a field of their own."""
    words = dict.fromkeys(CLAUSES[name].word for name in names)
    return tuple(word for word in words if word not in Problem.__dataclass_fields__)


@functools.lru_cache(maxsize=1024)
def expect_pairs(names: Tuple[str, ...]) -> None:
    """Says where a sequence has rows of queries and none of keys, and what comes together.

    names: of the arguments that are given. Those without a fault are not looked at again.
    """
    for kind, first, second, hint in _RELATIONS:
        has_first, has_second = first in names, second in names
        if kind == "together" and has_first != has_second:
            given = first if has_first else second
            raise ValueError(f"expects {first} and {second} together, but got {given} alone")
        if kind == "needs" and has_first and not has_second:
            raise ValueError(f"expects {second} with {first}, but got None: {hint}")
        if kind == "apart" and has_first and has_second and first not in LISTS:
            raise ValueError(f"expects no {first} with {second}, but got both: {hint}")
    _expect_sequences(names)


def _expect_sequences(names: Tuple[str, ...]) -> None:
    of_q, of_k = ENDS
    has_q, has_k = of_q in names, of_k in names
    if PAGES in names:
        if has_k:
            raise ValueError(
                f"expects no {of_k} with {PAGES}, but got one: pass how many keys each sequence "
                f"has as {LENGTHS}"
            )
        if has_q and LENGTHS not in names:
            raise ValueError(
                f"expects {LENGTHS} with {PAGES} and {of_q}, but got None: it says how many keys "
                "each sequence has"
            )
        return
    if has_q != has_k:
        given, missing = ENDS if has_q else ENDS[::-1]
        raise ValueError(
            f"expects {of_q} and {of_k} together, but got {given} alone: pass {missing} too, or "
            f"{LENGTHS} for the keys of each batch entry"
        )


def prepare(name: str, array: Any) -> Any:
    """An argument as kernels read it, copied where its elements lie apart."""
    view = _core.view(array, None, name)
    clause = CLAUSES[name]
    if name == SEED:
        _expect_words(view)
    elif name in (*NEW_ROWS, *ANGLES):
        return _prepare_rows(name, array, view)
    elif view.dtype != clause.dtype:
        raise TypeError(f"expects {name} of {clause.dtype}, but got {view.dtype}: convert it first")
    if view.rank != clause.rank:
        axes = "one axis" if clause.rank == 1 else f"{clause.rank} axes, ({', '.join(clause.axes)})"
        raise ValueError(f"expects {name} to have {axes}, but got {view.rank}")
    wanted = contiguous_strides(view.shape)
    is_dense = 0 in view.shape or all(
        n <= 1 or s == w for n, s, w in zip(view.shape, view.strides, wanted)
    )
    return array if is_dense else dense(name, array)


def read_clause(name: str, array: Any, layout: str) -> Tensor:
    """What the runtime is told of an argument that :func:`prepare` has seen."""
    tensor = CLAUSES[name].tensor
    if name in NEW_ROWS:
        return read_tensor(tensor, array, layout, None)
    view = _core.view(array, None, name)
    sizes, strides, dtype = view.shape, view.strides, view.dtype
    if name == SEED:  # as four words in their memory
        sizes, strides, dtype = (2 * sizes[0],), (1,), CLAUSES[name].dtype
    return Tensor(tensor, dtype, sizes, strides, view.device, True, view.read_only)


def _prepare_rows(name: str, array: Any, view: Any) -> Any:
    """Rows of columns side by side, each aligned as kernels move them."""
    if view.rank != CLAUSES[name].rank:
        axes = "4 axes, as k" if name in NEW_ROWS else "2 axes, (positions, rotary_dim / 2)"
        raise ValueError(f"expects {name} to have {axes}, but got {view.rank}")
    step = row_step(view.shape[-1])
    *outer, (inner, _) = zip(view.strides, view.shape)
    has_rows = inner == 1 and all(n <= 1 or (s >= 0 and s % step == 0) for s, n in outer)
    if name in ANGLES:
        has_rows = view.strides == contiguous_strides(view.shape)
    is_aligned = has_rows and view.pointer % (2 * step) == 0
    return array if is_aligned or 0 in view.shape else dense(name, array)


def _expect_words(view: "_core.View") -> None:
    if view.dtype != "int64" or view.shape != (2,):
        raise ValueError(
            f"expects {SEED} of int64 (2,), seed and offset, but got {view.dtype} {view.shape}"
        )


# Checks ---------------------------------------------------------------------


def check(tensors: Sequence[Tensor], batch: int, heads_q: int, bias: Optional[Tensor]) -> None:
    """Sizes against those of q, and what does not go together."""
    sizes = {tensor.name: tensor.sizes for tensor in tensors if tensor.name in _ARGUMENTS}
    count, unit = batch, "a batch entry"
    of_q, of_k = (CLAUSES[name].tensor for name in ENDS)
    if of_q in sizes:
        (entries,) = sizes[of_q]
        _check_sequences(entries, sizes.get(of_k, (entries,))[0], batch, bias)
        count, unit = entries - 1, "a sequence"
    if CLAUSES[PAGES].tensor in sizes and bias is not None:
        raise ValueError(
            f"expects no bias with {PAGES}, but got one: score_mod adds to scores, and counts "
            "keys as the table orders them"
        )
    wanted = {"heads_q": (heads_q, "a head of q"), "entries": (count, unit)}
    for tensor, (size, *others) in sizes.items():
        argument = _ARGUMENTS[tensor]
        expected, each = wanted.get(CLAUSES[argument].axes[0], (size, ""))
        if size != expected:
            raise ValueError(
                f"expects {argument} of {(expected, *others)}, {'a row' if others else 'one'} "
                f"{each}, but got {(size, *others)}"
            )


_ARGUMENTS = {clause.tensor: name for name, clause in CLAUSES.items()}


def check_appended(tensors: Sequence[Tensor], q: Tensor, k: Tensor, v: Tensor) -> None:
    """New rows against k and v, which are to be written, and what turns them."""
    new = {tensor.name: tensor for tensor in tensors if tensor.name in (*NEW_ROWS, *ANGLES)}
    if not new:
        return
    for cache in (k, v):
        if cache.is_read_only:
            raise ValueError(
                f"expects {cache.name} to be writable, as {cache.name}_new is appended to it, but "
                "it is read-only"
            )
    rows = new[NEW_ROWS[0]].sizes[2]
    wanted = {
        name: (q.sizes[0], cache.sizes[1], rows, cache.sizes[3])
        for name, cache in zip(NEW_ROWS, (k, v))
    }
    for name, tensor in new.items():
        if tensor.dtype != q.dtype:
            raise TypeError(f"expects {name} of the type of q, {q.dtype}, but got {tensor.dtype}")
        if tensor.sizes != wanted.get(name, tensor.sizes):
            raise ValueError(
                f"expects {name} of {wanted[name]} in the order (batch, heads, rows, head_dim), "
                f"but got {tensor.sizes}"
            )
    if rows and 0 in q.sizes[:3]:
        raise ValueError(f"expects a query or more with {NEW_ROWS[0]}, but got q of {q.sizes}")
    if ANGLES[0] in new:
        cos, sin = (new[name].sizes for name in ANGLES)
        _check_angles(cos, sin, q.sizes[3])


def _check_angles(
    cos: "Tuple[int, ...]", sin: "Tuple[int, ...]", head_dim: int
) -> None:
    if cos != sin or cos[0] < 1 or not 1 <= cos[1] <= head_dim // 2:
        raise ValueError(
            f"expects {' and '.join(ANGLES)} of (positions, rotary_dim / 2), both of one size, "
            f"with a position or more and a rotary_dim of 2 to {head_dim}, the head_dim, but got "
            f"{cos} and {sin}"
        )


def _check_sequences(of_q: int, of_k: int, batch: int, bias: Optional[Tensor]) -> None:
    if of_q != of_k or of_q < 1:
        raise ValueError(
            f"expects {' and '.join(ENDS)} of as many entries, one more than there are sequences, "
            f"but got {of_q} and {of_k}"
        )
    if batch != 1:
        raise ValueError(
            f"expects q of batch 1 with {ENDS[0]}, but got {batch}: sequences lie back to back "
            "on the axis of seqlen"
        )
    if bias is not None:
        raise ValueError(
            f"expects no bias with {ENDS[0]}, but got one: score_mod adds to the scores of a "
            "sequence, and knows which one it is"
        )
