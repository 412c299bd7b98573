"""Tensors of a call beside q, k, v and bias: those of clauses, and what functions read.

``_core.Call`` takes them in one tuple: an entry for each clause, in the order of
``CLAUSES``, None where it is not given, and behind these what score_mod and mask_mod read.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from flashcore import _core, clauses
from flashcore.arrays import CPU, CUDA_HOST, Library, library_of, wrap_on_host
from flashcore.blocks import complete, word_of
from flashcore.errors import UnsupportedError
from flashcore.operands import CLAUSES, ENDS, LISTS, PAGES, SEED
from flashcore.options import CaptureKind, Options
from flashcore.tensors import Tensor

__all__ = ["Prepare", "expect_pairs", "name_all", "needs_copies", "read_all"]

_NAMES = tuple(CLAUSES)


def name_all(options: Options, beside: Optional[Tuple[Any, ...]]) -> Dict[str, Any]:
    """Those that are given, by the names of arguments, and capture0 and on, in their order."""
    if beside is None:
        return {}
    clauses_end = len(beside) - len(options.captures)
    given = {
        name: array for name, array in zip(_NAMES, beside[:clauses_end]) if array is not None
    }
    given.update((f"capture{i}", array) for i, array in enumerate(beside[clauses_end:]))
    return given


def expect_pairs(options: Options, given: Mapping[str, Any], out: Any) -> None:
    """Says which arguments and options do not go together, or not without another."""
    clauses.expect_pairs(tuple(name for name in given if name in CLAUSES))
    if options.dropout is not None and SEED not in given:
        raise ValueError(
            f"expects {SEED}, seed and offset of int64 (2,), with dropout_p "
            f"{options.dropout:g}, but got None"
        )
    if options.scores:
        _expect_rectangle(given, out)
    if options.block_size:
        _expect_no_blocks_with(options, given)


def _expect_rectangle(given: Mapping[str, Any], out: Any) -> None:
    """Of scores that are returned."""
    for name in (ENDS[0], PAGES):
        if name in given:
            raise UnsupportedError(
                f"expects no scores with {name}, but got both: call it for each sequence, or "
                "gather the pages first"
            )
    if out is not None:
        raise ValueError(
            "expects out=None with scores, but got an array: all results are made by the call"
        )


def _expect_no_blocks_with(options: Options, given: Mapping[str, Any]) -> None:
    """What kernels do not combine with lists of blocks."""
    for name in (ENDS[0], PAGES, "scores"):
        if name in given or (name == "scores" and options.scores):
            raise UnsupportedError(
                f"expects no block_mask with {name}, but got both: leave block_mask out, which "
                "changes no result where it is that of the mask"
            )


def read_all(given: Mapping[str, Any], layout: str) -> Tuple[Tensor, ...]:
    """What the runtime is told of them."""
    return tuple(
        clauses.read_clause(name, array, layout) if name in CLAUSES else _read_capture(name, array)
        for name, array in given.items()
    )


def _read_capture(name: str, array: Any) -> Tensor:
    view = _core.view(array, None, name)
    return Tensor(name, view.dtype, view.shape, view.strides, view.device, True, view.read_only)


# Copies ---------------------------------------------------------------------


class Prepare:
    """Makes the tuple of a call one that kernels read, with copies of what they do not.

    Calling it with the tuple and q returns a tuple, with what needs no copy as it is.
    """

    def __init__(self, options: Options, beside: Optional[Tuple[Any, ...]]) -> None:
        self._captures = options.captures
        self._end = len(beside or ()) - len(self._captures)
        self._block_size = options.block_size

    def __call__(self, beside: Tuple[Any, ...], q: Any) -> Tuple[Any, ...]:
        arrays = list(self._complete(beside))
        for i, name in zip(range(self._end), _NAMES):
            if arrays[i] is not None:
                arrays[i] = clauses.prepare(name, arrays[i])
        for i, kind in enumerate(self._captures, self._end):
            arrays[i] = _prepare_capture(kind, arrays[i], q)
        return tuple(arrays)

    def _complete(self, beside: Tuple[Any, ...]) -> Tuple[Any, ...]:
        if self._block_size is None:
            return beside
        first = _NAMES.index(LISTS[0])
        last = first + len(LISTS)
        lists = complete(beside[first:last])
        word_of(self._block_size, lists)  # says what is wrong by the names of BlockLists
        return (*beside[:first], *lists, *beside[last:])


def needs_copies(prepare: Prepare, beside: Optional[Tuple[Any, ...]], q: Any) -> bool:
    """Whether some do not go to a kernel as they are. Checks all of them."""
    if beside is None:
        return False
    return any(one is not other for one, other in zip(beside, prepare(beside, q)))


def _prepare_capture(kind: CaptureKind, array: Any, q: Any) -> Any:
    """A tensor that functions read, copied where a kernel does not read it as it is."""
    library = library_of(array)
    if library is None:
        array = wrap_on_host("a captured tensor", array)
        library = library_of(array)
    if library is None:
        if kind.converted:
            raise UnsupportedError(
                f"expects captured tensors that need not be converted to {kind.converted}, of a "
                f"library that is not PyTorch, NumPy or CuPy, but got {kind.dtype}"
            )
        return array
    view = _core.view(array, None, "a captured tensor")
    if kind.converted and view.dtype != kind.converted:
        _check_range(view, array)
        array = library.convert(array, kind.converted)
    elif kind.is_backwards and min(view.strides, default=0) < 0:
        array = library.dense(array)
    if kind.rank == 0:  # PyTorch takes a number on the host with tensors anywhere
        array = _number_beside(library, array, q)
    return array


def _number_beside(library: Library, array: Any, q: Any) -> Any:
    """A tensor of rank 0 where q lies."""
    others = library_of(q)
    if others is None or type(others) is type(library):
        return library.beside(array, q)
    here, there = (_core.view(x, None, "a captured tensor") for x in (array, q))
    if here.device[0] not in (CPU, CUDA_HOST) or there.device[0] in (CPU, CUDA_HOST):
        return array
    return others.full(q, (), array.item(), here.dtype)


def _check_range(view: "_core.View", array: Any) -> None:
    """Of whole numbers that lose bits, where looking at them waits for no GPU."""
    if view.dtype != "int64" or view.device[0] not in (CPU, CUDA_HOST) or 0 in view.shape:
        return
    low, high = int(array.min()), int(array.max())
    if low < -(1 << 31) or high >= 1 << 31:
        raise ValueError(
            f"expects captured tensors of int64 whose values fit in int32, but got {low} to {high}"
        )
