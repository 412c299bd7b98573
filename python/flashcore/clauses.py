"""Tensors beside q, k, v and bias: slopes, sinks, and lengths of sequences.

Each is a clause of the op. They reach a call as tensors that score_mod and
mask_mod read do: :mod:`flashcore.mods` tells the compiler and the runtime of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import library_of

if TYPE_CHECKING:
    from flashcore.resolve import Tensor

__all__ = ["Beside", "check", "declare", "expect_pairs", "prepare", "text_of"]


class Beside(NamedTuple):
    """The arguments of :func:`flashcore.attention` that are clauses, or None each.

    alibi_slopes, sinks: (heads_q), float32.
    cu_seqlens_q, cu_seqlens_k: (sequences + 1), int32.
    seqused_k: (batch), with cu_seqlens (sequences), int32.
    """

    alibi_slopes: Any = None
    sinks: Any = None
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None


class Clause(NamedTuple):
    #: What the runtime calls the tensor.
    tensor: str
    word: str
    dtype: str
    element: str


#: By the names of arguments, in the order of the clauses.
CLAUSES: Dict[str, Clause] = {
    "alibi_slopes": Clause("alibi_slopes", "alibi", "float32", "f32"),
    "sinks": Clause("sink_logits", "sink", "float32", "f32"),
    "cu_seqlens_q": Clause("cu_seqlens_q", "cu_seqlens_q", "int32", "i32"),
    "cu_seqlens_k": Clause("cu_seqlens_k", "cu_seqlens_k", "int32", "i32"),
    "seqused_k": Clause("seqused_k", "seqused_k", "int32", "i32"),
}


def expect_pairs(beside: Beside) -> None:
    """Says where a sequence has rows of queries and none of keys."""
    q, k = beside.cu_seqlens_q, beside.cu_seqlens_k
    if (q is None) != (k is None):
        given, missing = ("cu_seqlens_k", "cu_seqlens_q") if q is None else (
            "cu_seqlens_q", "cu_seqlens_k")  # fmt: skip
        raise ValueError(
            f"expects cu_seqlens_q and cu_seqlens_k together, but got {given} alone: pass "
            f"{missing} too, or seqused_k for the keys of each batch entry"
        )


def prepare(name: str, array: Any) -> Any:
    """An argument as kernels read it, copied where its elements lie apart."""
    view = _core.view(array, None)
    clause = CLAUSES[name]
    if view.dtype != clause.dtype:
        raise TypeError(f"expects {name} of {clause.dtype}, but got {view.dtype}: convert it first")
    if view.rank != 1:
        raise ValueError(f"expects {name} to have one axis, but got {view.rank}")
    library = library_of(array)
    if library is None or view.shape[0] <= 1 or view.strides == (1,):
        return array
    return library.dense(array)


# What a kernel has of them --------------------------------------------------


def declare(names: Sequence[str]) -> str:
    """The parameters of a function, after others."""
    return "".join(f", %{CLAUSES[name].tensor}: {_type(name)}" for name in names)


def text_of(names: Sequence[str]) -> str:
    """The clauses, as they stand behind the others of the op."""
    return "".join(
        f" {CLAUSES[name].word}(%{CLAUSES[name].tensor} : {_type(name)})" for name in names
    )


def _type(name: str) -> str:
    return f"memref<?x{CLAUSES[name].element}>"


# Checks ---------------------------------------------------------------------


def check(tensors: "Sequence[Tensor]", batch: int, heads_q: int, bias: "Optional[Tensor]") -> None:
    """Sizes against those of q, and what does not go together."""
    sizes = {tensor.name: tensor.sizes[0] for tensor in tensors if tensor.name in _ARGUMENTS}
    count, entries = batch, sizes.get("cu_seqlens_q")
    if entries is not None:
        _check_sequences(entries, sizes["cu_seqlens_k"], batch, bias)
        count = entries - 1
    what = "one a batch entry" if entries is None else "one a sequence"
    wanted: Dict[str, Tuple[int, str]] = {
        "alibi_slopes": (heads_q, "one a head of q"),
        "sink_logits": (heads_q, "one a head of q"),
        "seqused_k": (count, what),
    }
    for tensor, size in sizes.items():
        expected, why = wanted.get(tensor, (size, ""))
        if size != expected:
            raise ValueError(
                f"expects {_ARGUMENTS[tensor]} of ({expected},), {why}, but got ({size},)"
            )


_ARGUMENTS = {clause.tensor: name for name, clause in CLAUSES.items()}


def _check_sequences(of_q: int, of_k: int, batch: int, bias: "Optional[Tensor]") -> None:
    if of_q != of_k or of_q < 1:
        raise ValueError(
            "expects cu_seqlens_q and cu_seqlens_k of as many entries, one more than there are "
            f"sequences, but got {of_q} and {of_k}"
        )
    if batch != 1:
        raise ValueError(
            f"expects q, k and v of batch 1 with cu_seqlens_q, but got {batch}: sequences lie back "
            "to back on the axis of seqlen"
        )
    if bias is not None:
        raise ValueError(
            "expects no bias with cu_seqlens_q, but got one: score_mod adds to the scores of a "
            "sequence, and knows which one it is"
        )
