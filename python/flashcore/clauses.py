"""Tensors beside q, k, v and bias: slopes, sinks, lengths, pages, words of a dropout, new rows.

Each is a clause of the op. They reach a call as tensors that score_mod and
mask_mod read do: :mod:`flashcore.mods` tells the compiler and the runtime of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import contiguous_strides, dense, library_of
from flashcore.errors import UnsupportedError
from flashcore.problem import Problem, row_step

if TYPE_CHECKING:
    from flashcore.tensors import Tensor

__all__ = ["Beside", "check", "check_appended", "expect_pairs", "prepare", "words_of"]


class Beside(NamedTuple):
    """The arguments of :func:`flashcore.attention` that are clauses, or None each.

    alibi_slopes, sinks: (heads_q), float32.
    cu_seqlens_q, cu_seqlens_k: (sequences + 1), int32.
    seqused_k: (batch), with cu_seqlens (sequences), int32.
    page_table: (batch, pages of each), with cu_seqlens (sequences, ...), int32.
    rng: (2), of int64: seed and offset.
    k_new, v_new: (batch, heads_kv, seqlen_new, head_dim), as k and v are.
    rotary_cos, rotary_sin: (positions, rotary_dim / 2), of the type of q.
    block_counts, block_indices, full_block_counts, full_block_indices: all of them, (batch
        or 1, heads_q or 1, blocks of queries), of indices with the blocks of keys, int32.
    """

    alibi_slopes: Any = None
    sinks: Any = None
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None
    page_table: Any = None
    rng: Any = None
    k_new: Any = None
    v_new: Any = None
    rotary_cos: Any = None
    rotary_sin: Any = None
    block_counts: Any = None
    block_indices: Any = None
    full_block_counts: Any = None
    full_block_indices: Any = None


class Clause(NamedTuple):
    #: What the runtime calls the tensor.
    tensor: str
    word: str
    #: Of an array; empty for those of the type of q.
    dtype: str
    #: The sizes, as the runtime calls them.
    axes: Tuple[str, ...]

    @property
    def rank(self) -> int:
        return len(self.axes)


_TYPES = {"F32": "float32", "I32": "int32", "Half": ""}


def _read_clauses() -> "Dict[str, Clause]":
    """What stands beside q, k, v and bias, of the compiler's table of operands."""
    rows = (row for row in _core.operands() if row[5] == "Input" and row[0] in Beside._fields)
    return {
        argument: Clause(
            tensor, word, _TYPES[elements], tuple(axes.replace("|1", "").split(", "))
        )
        for argument, tensor, word, elements, axes, _ in rows
    }


#: By the names of arguments, in the order of the clauses.
CLAUSES: Dict[str, Clause] = _read_clauses()

#: Rows that are laid out as those of k and v are, and what turns them. They are of the
#: type of q.
NEW_ROWS = ("k_new", "v_new")
ANGLES = ("rotary_cos", "rotary_sin")


def words_of(names: Sequence[str]) -> Tuple[str, ...]:
    """Those of ``--shape`` for such arguments, but for words with a field of their own."""
    words = dict.fromkeys(CLAUSES[name].word for name in names)
    return tuple(word for word in words if word not in Problem.__dataclass_fields__)


def expect_pairs(beside: Beside) -> None:
    """Says where a sequence has rows of queries and none of keys, and what comes together."""
    _expect_appended(beside)
    q, k = beside.cu_seqlens_q, beside.cu_seqlens_k
    if beside.page_table is not None:
        if k is not None:
            raise ValueError(
                "expects no cu_seqlens_k with page_table, but got one: pass how many keys each "
                "sequence has as seqused_k"
            )
        if q is not None and beside.seqused_k is None:
            raise ValueError(
                "expects seqused_k with page_table and cu_seqlens_q, but got None: it says how "
                "many keys each sequence has"
            )
        return
    if (q is None) != (k is None):
        given, missing = ("cu_seqlens_k", "cu_seqlens_q") if q is None else (
            "cu_seqlens_q", "cu_seqlens_k")  # fmt: skip
        raise ValueError(
            f"expects cu_seqlens_q and cu_seqlens_k together, but got {given} alone: pass "
            f"{missing} too, or seqused_k for the keys of each batch entry"
        )


def _expect_appended(beside: Beside) -> None:
    for names in (NEW_ROWS, ANGLES):
        given = [name for name in names if getattr(beside, name) is not None]
        if len(given) == 1:
            raise ValueError(f"expects {' and '.join(names)} together, but got {given[0]} alone")
    if beside.k_new is None:
        if beside.rotary_cos is not None:
            raise ValueError(
                "expects k_new and v_new with rotary_cos, but got None: keys that are there were "
                "turned when they were written"
            )
        return
    if beside.seqused_k is None:
        raise ValueError(
            "expects seqused_k with k_new, but got None: it says behind which keys rows go"
        )
    if beside.cu_seqlens_q is not None:
        raise ValueError(
            "expects no cu_seqlens_q with k_new, but got one: each entry of a batch has as many "
            "new rows"
        )


def prepare(name: str, array: Any) -> Any:
    """An argument as kernels read it, copied where its elements lie apart."""
    if name == "rng":
        array = _words_of(array)
    view = _core.view(array, None, name)
    clause = CLAUSES[name]
    if name in (*NEW_ROWS, *ANGLES):
        return _prepare_rows(name, array, view)
    if view.dtype != clause.dtype:
        raise TypeError(f"expects {name} of {clause.dtype}, but got {view.dtype}: convert it first")
    if view.rank != clause.rank:
        axes = "one axis" if clause.rank == 1 else f"{clause.rank} axes, ({', '.join(clause.axes)})"
        raise ValueError(f"expects {name} to have {axes}, but got {view.rank}")
    wanted = contiguous_strides(view.shape)
    is_dense = all(n <= 1 or s == w for n, s, w in zip(view.shape, view.strides, wanted))
    return array if is_dense else dense(name, array)


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


def _words_of(rng: Any) -> Any:
    """Seed and offset as four words, in the memory of the two."""
    view = _core.view(rng, None, "rng")
    if view.dtype != "int64" or view.shape != (2,):
        raise ValueError(
            f"expects rng of int64 (2,), seed and offset, but got {view.dtype} {view.shape}"
        )
    library = library_of(rng)
    if library is None:
        raise UnsupportedError(
            f"expects rng of PyTorch, NumPy or CuPy, but got one of {type(rng).__name__}"
        )
    return library.as_int32(rng if view.strides == (1,) else library.dense(rng))


# Checks ---------------------------------------------------------------------


def check(tensors: "Sequence[Tensor]", batch: int, heads_q: int, bias: "Optional[Tensor]") -> None:
    """Sizes against those of q, and what does not go together."""
    sizes = {tensor.name: tensor.sizes for tensor in tensors if tensor.name in _ARGUMENTS}
    count, unit = batch, "a batch entry"
    if "cu_seqlens_q" in sizes:
        (entries,) = sizes["cu_seqlens_q"]
        _check_sequences(entries, sizes.get("cu_seqlens_k", (entries,))[0], batch, bias)
        count, unit = entries - 1, "a sequence"
    if "page_table" in sizes and bias is not None:
        raise ValueError(
            "expects no bias with page_table, but got one: score_mod adds to scores, and counts "
            "keys as the table orders them"
        )
    wanted: Dict[str, Tuple[int, str]] = {
        "alibi_slopes": (heads_q, "one a head of q"),
        "sink_logits": (heads_q, "one a head of q"),
        "seqused_k": (count, f"one {unit}"),
        "page_table": (count, f"a row {unit}"),
    }
    for tensor, (size, *others) in sizes.items():
        expected, why = wanted.get(tensor, (size, ""))
        if size != expected:
            raise ValueError(
                f"expects {_ARGUMENTS[tensor]} of {(expected, *others)}, {why}, but got "
                f"{(size, *others)}"
            )


_ARGUMENTS = {clause.tensor: name for name, clause in CLAUSES.items()}


def check_appended(tensors: "Sequence[Tensor]", q: "Tensor", k: "Tensor", v: "Tensor") -> None:
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
    rows = new["k_new"].sizes[2]
    wanted = {
        "k_new": (q.sizes[0], k.sizes[1], rows, k.sizes[3]),
        "v_new": (q.sizes[0], v.sizes[1], rows, v.sizes[3]),
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
        raise ValueError(f"expects a query or more with k_new, but got q of {q.sizes}")
    if "rotary_cos" in new:
        _check_angles(new["rotary_cos"].sizes, new["rotary_sin"].sizes, q.sizes[3])


def _check_angles(
    cos: "Tuple[int, ...]", sin: "Tuple[int, ...]", head_dim: int
) -> None:
    if cos != sin or cos[0] < 1 or not 1 <= cos[1] <= head_dim // 2:
        raise ValueError(
            "expects rotary_cos and rotary_sin of (positions, rotary_dim / 2), both of one size, "
            f"with a position or more and a rotary_dim of 2 to {head_dim}, the head_dim, but got "
            f"{cos} and {sin}"
        )


def _check_sequences(of_q: int, of_k: int, batch: int, bias: "Optional[Tensor]") -> None:
    if of_q != of_k or of_q < 1:
        raise ValueError(
            "expects cu_seqlens_q and cu_seqlens_k of as many entries, one more than there are "
            f"sequences, but got {of_q} and {of_k}"
        )
    if batch != 1:
        raise ValueError(
            f"expects q of batch 1 with cu_seqlens_q, but got {batch}: sequences lie back to back "
            "on the axis of seqlen"
        )
    if bias is not None:
        raise ValueError(
            "expects no bias with cu_seqlens_q, but got one: score_mod adds to the scores of a "
            "sequence, and knows which one it is"
        )
