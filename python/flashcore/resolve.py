"""What a call does for arguments of sizes, strides and places not seen before.

:func:`resolve` checks the arguments and returns what ``_core.Call`` keeps for
them: a ``Launch``, or a function that first copies, or runs in host
memory.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set, Tuple

from flashcore import _core, arrays, clauses, foreign, kernels
from flashcore.arrays import CPU, CUDA, CUDA_HOST, SHORT, Library, device_kind, name_of_device
from flashcore.beside import Prepare, expect_pairs, name_all, needs_copies, read_all
from flashcore.blocks import blocks_of, check_blocks, word_of
from flashcore.errors import Error, not_loaded
from flashcore.operands import ANGLES, CLAUSES, ENDS, LISTS, NEW_ROWS, PAGES, SINKS
from flashcore.options import Options
from flashcore.problem import GRID, INVARIANT, Problem, Schedule, abridge
from flashcore.tensors import (
    AXES, Sizes, Tensor, expect_no_overlap, has_rows, is_dense, is_like, normal_strides,
    read_tensor, reorder, strides_of,
)  # fmt: skip

__all__ = ["call_for", "check_tensors", "join_results", "resolve"]

#: Of q, k, v, bias, out, stream and the tuple of tensors beside these.
Run = Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
Spec = Tuple[str, int, bool, Sizes, Sizes]

#: Of an element that is read beside q, k and v; others have two.
_CAPTURED_BYTES = {"float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}
#: What _core calls tensors of every attention, in the order of its arguments; those beside
#: these that are given follow.
_FIXED = ("q", "k", "v", "bias", "o", "lse", "scores")
#: What a call writes beside its outputs, in numbers of _core.
_WRITES_NOTHING, _WRITES_CACHES, _WRITES_PAGES = range(3)
#: Of k and v in pages.
_PAGE_AXES = {
    "bhsd": "(pages, heads, page_size, head_dim)",
    "bshd": "(pages, page_size, heads, head_dim)",
}


@dataclass(frozen=True)
class Arguments:
    """Arguments that agree with each other."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Optional[Tensor]
    o: Optional[Tensor]
    lse: Optional[Tensor]
    #: Whether the library makes outputs that are ordered as q.
    has_permuted_outputs: bool
    #: Of clauses, and what score_mod and mask_mod read.
    captured: Tuple[Tensor, ...] = ()
    #: The words of a problem for the clauses.
    words: Tuple[str, ...] = ()
    #: That of lists of blocks, such as "128x128:11".
    blocks: Optional[str] = None

    @property
    def o_sizes(self) -> Sizes:
        return (*self.q.sizes[:3], self.v.sizes[3])

    def of_clause(self, name: str) -> Optional[Tensor]:
        """The tensor of an argument, if it is given."""
        wanted = CLAUSES[name].tensor
        return next((tensor for tensor in self.captured if tensor.name == wanted), None)

    @property
    def has_pages(self) -> bool:
        return self.of_clause(PAGES) is not None

    @property
    def appends(self) -> bool:
        """Whether the call writes rows of k and v."""
        return self.of_clause(NEW_ROWS[0]) is not None

    @property
    def rotary_dim(self) -> Optional[int]:
        angles = self.of_clause(ANGLES[0])
        return None if angles is None else 2 * angles.sizes[1]

    @property
    def seqlen_k(self) -> int:
        """The most keys that a batch entry may have."""
        table, size = self.of_clause(PAGES), self.k.sizes[2]
        return table.sizes[1] * size if table else size

    @property
    def list_sizes(self) -> Sizes:
        """Of what names the blocks, (batch, heads, blocks of queries, blocks of keys)."""
        return max((t.sizes for t in map(self.of_clause, LISTS) if t), key=len)

    def named(self) -> List[Tensor]:
        every = (self.q, self.k, self.v, self.bias, *self.captured, self.o, self.lse)
        return [tensor for tensor in every if tensor is not None]


#: By options.
_calls_of_options: Dict[Options, "_core.Call"] = {}
#: A program with more sets of options starts over.
_MAX_CALLS = 1024
#: Arguments of clauses, in the order of the tuple that _core.Call takes.
_NAMES = tuple(CLAUSES)


def call_for(options: Options) -> "_core.Call":
    """What runs attention with these options, as ``run(q, k, v, bias, out, stream, beside)``."""
    call = _calls_of_options.get(options)
    if call is None:
        if len(_calls_of_options) >= _MAX_CALLS:
            _calls_of_options.clear()
        call = _core.make_call(
            partial(resolve, options), options.refuses_gradients, _NAMES, "q"
        )
        _calls_of_options[options] = call
    return call


def resolve(
    options: Options,
    call: "_core.Call",
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    out_lse: Any,
    stream: Any,
    beside: Any,
) -> Tuple[Any, int]:
    """What to do for such arguments, again and again, and what it writes beside outputs."""
    if options.without_batch:
        q, out, out_lse = (None if x is None else x[None] for x in (q, out, out_lse))
        k, v = (x if PAGES in name_all(options, beside) else x[None] for x in (k, v))
    given = name_all(options, beside)
    expect_pairs(options, given, out_lse if out is None else out)
    prepare = Prepare(options, beside)
    if needs_copies(prepare, beside, q):
        return partial(_run_prepared, call, prepare), _WRITES_NOTHING
    library = arrays.library_of(q)
    if library is not None and library.autocasts(q, k, v) and NEW_ROWS[0] not in given:
        return partial(_run_autocast, library, call), _WRITES_NOTHING
    arguments = _read(options, library, q, k, v, bias, out, out_lse, stream, given)
    return _action(library, options, call, arguments, q), _writes(arguments)


def _read(
    options: Options,
    library: Optional[Library],
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    out_lse: Any,
    stream: Any,
    given: Dict[str, Any],
) -> Arguments:
    """What the arguments of a call are, checked."""
    arguments = Arguments(
        read_tensor("q", q, options.layout, stream),
        read_tensor("k", k, options.layout, stream),
        read_tensor("v", v, options.layout, stream),
        None if bias is None else _read_bias(bias, stream),
        None if out is None else read_tensor("out", out, options.layout, stream),
        None if out_lse is None else _read_lse(out_lse, stream),
        library is not None and library.has_permuted_outputs,
        read_all(given, options.layout),
        clauses.words_of(tuple(name for name in given if name in CLAUSES)),
        options.block_size and word_of(options.block_size, [given[name] for name in LISTS]),
    )
    _check(arguments, options)
    return arguments


def check_tensors(options: Options, q: Any, k: Any, v: Any, bias: Any, beside: Any) -> None:
    """Checks a call of PyTorch's tensors that PyTorch computes, as the kernel's are.

    Raises what :func:`flashcore.attention` does for arguments that do not fit.
    """
    q, k, v, bias = (x.detach() if hasattr(x, "detach") else x for x in (q, k, v, bias))
    if beside is not None:
        beside = tuple(x.detach() if hasattr(x, "detach") else x for x in beside)
    prepared = None if beside is None else Prepare(options, beside)(beside, q)
    given = name_all(options, prepared)
    expect_pairs(options, given, None)
    _read(options, arrays.library_of(q), q, k, v, bias, None, None, None, given)


def _writes(arguments: Arguments) -> int:
    if not arguments.appends:
        return _WRITES_NOTHING
    return _WRITES_PAGES if arguments.has_pages else _WRITES_CACHES


def _action(
    library: Optional[Library], options: Options, call: "_core.Call", arguments: Arguments, q: Any
) -> Any:
    kind = device_kind("q", arguments.q.device, options.device)
    if library is None:
        return _resolve_foreign(options, call, arguments, kind)
    if _is_empty(arguments):
        return partial(_run_empty, library, options, arguments)
    fixed = _to_copy(arguments, on_host=arguments.q.device[0] != CUDA)
    if arguments.appends:
        _check_caches(arguments, fixed)
    if fixed:
        return partial(_run_copied, library, call, fixed)
    if arguments.q.device[0] in (CPU, CUDA_HOST):
        return _make_host_run(library, options, arguments, kind)
    return _make_launch(library, options, arguments, q)


def _resolve_foreign(
    options: Options, call: "_core.Call", arguments: Arguments, kind: str
) -> Run:
    """Of arrays that we know nothing of but DLPack."""
    if arguments.q.device[0] in (CPU, CUDA_HOST):
        return partial(foreign.run_on_host, call)
    fixed = _to_copy(arguments, on_host=False)
    if _is_empty(arguments) or fixed:
        raise ValueError(
            "expects arrays that are not empty, with aligned rows, of a library that is not "
            f"PyTorch or CuPy, but got q of {arguments.q.sizes} and v of {arguments.v.sizes}"
            + (f", where {', '.join(sorted(fixed))} would be copied" if fixed else "")
        )
    ordinal = arguments.q.device[1]
    target = kernels.device("cuda", ordinal)
    problem, schedule = _problem(arguments, options, target)
    specs, _ = _specs(arguments, options, problem.layout)
    loaded = kernels.load(target, problem, schedule, is_of_sizes=not options.schedule)
    plan = loaded.module.plan(specs)
    lse = arguments.o_sizes[:3] if options.needs_lse else None
    scores = _score_sizes(arguments) if options.scores else None
    shapes = {
        "o": (reorder(arguments.o_sizes, options.layout), arguments.q.dtype),
        "lse": (lse, "float32"),
        "scores": (scores, "float32"),
    }
    outputs = {name: (shape, dtype) for name, (shape, dtype) in shapes.items() if shape}
    returned = [name for name in outputs if name != "lse" or options.lse]
    return foreign.make_device_run(
        plan, target, ordinal, outputs, returned, _sources(arguments, specs)
    )


# Reading and checking -------------------------------------------------------


def _read_bias(array: Any, stream: Any) -> Tensor:
    view = _core.view(array, stream, "bias")
    if view.rank > 4:
        raise ValueError(f"expects bias to have at most 4 axes, but got {view.rank}")
    if view.dtype not in SHORT:
        hint = ": 0 shows a key and -inf hides it" if view.dtype == "bool" else ""
        raise TypeError(f"expects bias of float16, bfloat16 or float32, but got {view.dtype}{hint}")
    missing = 4 - view.rank
    sizes = (1,) * missing + view.shape
    strides = (0,) * missing + view.strides
    return Tensor("bias", view.dtype, sizes, strides, view.device, True, view.read_only)


def _read_lse(array: Any, stream: Any) -> Tensor:
    view = _core.view(array, stream, "the lse of out")
    if view.rank != 3 or view.dtype != "float32":
        raise ValueError(
            "expects the lse of out to be float32 (batch, heads, seqlen_q), but got "
            f"{view.dtype} with {view.rank} axes"
        )
    return Tensor("lse", view.dtype, view.shape, view.strides, view.device, True, view.read_only)


def _check(arguments: Arguments, options: Options) -> None:
    _check_types(arguments)
    _check_sizes(arguments, options.layout)
    for tensor in arguments.named():
        if tensor.device != arguments.q.device:
            raise ValueError(
                f"expects {tensor.name} where q is, on {_place(arguments.q)}, but got it on "
                f"{_place(tensor)}"
            )
    if arguments.bias:
        _check_bias(arguments.bias.sizes, arguments)
    batch, heads_q = arguments.q.sizes[:2]
    clauses.check(arguments.captured, batch, heads_q, arguments.bias)
    clauses.check_appended(arguments.captured, arguments.q, arguments.k, arguments.v)
    if options.block_size:
        rows = arguments.q.sizes[2], arguments.k.sizes[2]
        check_blocks(arguments.list_sizes, options.block_size, batch, heads_q, *rows)
    _check_outputs(arguments, options)


def _check_types(arguments: Arguments) -> None:
    q = arguments.q
    if q.dtype not in ("float16", "bfloat16"):
        _refuse_type(q.dtype)
    for tensor in (arguments.k, arguments.v, arguments.o):
        if tensor and tensor.dtype != q.dtype:
            raise TypeError(
                f"expects {tensor.name} of the type of q, {q.dtype}, but got {tensor.dtype}"
            )


def _refuse_type(dtype: str) -> NoReturn:
    raise TypeError(f"expects q of float16 or bfloat16, but got {dtype}: convert q, k and v first")


def _check_sizes(arguments: Arguments, layout: str) -> None:
    (batch, heads_q, _, dim), k, v = arguments.q.sizes, arguments.k.sizes, arguments.v.sizes
    axes = (_PAGE_AXES if arguments.has_pages else AXES)[layout]

    def expect(tensor: str, what: str, wanted: int, got: int) -> None:
        if wanted != got:
            raise ValueError(
                f"expects {what} of {tensor} to be {wanted}, but got {got}; axes are "
                f"{axes} with layout={layout!r}"
            )

    if arguments.has_pages:
        expect("v", "pages", k[0], v[0])
        expect("v", "page_size", k[2], v[2])
        _check_page_size(k[2], layout)
    else:
        expect("k", "batch", batch, k[0])
        expect("v", "batch", batch, v[0])
        expect("v", "seqlen", k[2], v[2])
    expect("k", "head_dim", dim, k[3])
    expect("v", "heads", k[1], v[1])
    if heads_q % k[1] if k[1] else heads_q:
        raise ValueError(
            f"expects the heads of q to be a multiple of those of k, but got {heads_q} and {k[1]}"
        )
    if dim == 0 or v[3] == 0:
        raise ValueError(f"expects a head_dim of at least 1, but got {min(dim, v[3])}")


def _check_page_size(size: int, layout: str) -> None:
    if size < 1:
        raise ValueError(
            f"expects a page_size of k and v of at least 1, but got {size}; with "
            f"{PAGES} axes are {_PAGE_AXES[layout]} with layout={layout!r}"
        )


def _score_sizes(arguments: Arguments) -> Sizes:
    return (*arguments.q.sizes[:3], arguments.seqlen_k)


def _check_bias(sizes: Sizes, arguments: Arguments) -> None:
    wanted = _score_sizes(arguments)
    for size, full in zip(sizes, wanted):
        if size not in (1, full):
            raise ValueError(
                "expects bias to be broadcastable to (batch, heads, seqlen_q, seqlen_k) = "
                f"{wanted}, but got {sizes}"
            )


def _check_outputs(arguments: Arguments, options: Options) -> None:
    wanted = [(arguments.o, arguments.o_sizes), (arguments.lse, arguments.q.sizes[:3])]
    for tensor, sizes in wanted:
        if tensor is None:
            continue
        if tensor.sizes != sizes:
            raise ValueError(
                f"expects {tensor.name} of {sizes} in the order {AXES['bhsd']}, but got "
                f"{tensor.sizes}"
            )
        if tensor.is_read_only:
            raise ValueError(f"expects {tensor.name} to be writable, but it is read-only")
        expect_no_overlap(tensor)
    if arguments.lse and not options.lse:
        raise ValueError("expects one array as out without lse=True, but got two")


def _place(tensor: Tensor) -> str:
    return name_of_device(tensor.device)


# Copies, and nothing to compute ---------------------------------------------


def _is_empty(arguments: Arguments) -> bool:
    return 0 in arguments.q.sizes[:3] or 0 in (arguments.k.sizes[0], arguments.seqlen_k)


def _run_empty(
    library: Library,
    options: Options,
    arguments: Arguments,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
    beside: Any,
) -> Any:
    """Queries that see no key."""
    o = library.full(q, _o_axes(arguments.o_sizes, options), 0.0, arguments.q.dtype)
    lse = scores = None
    if options.needs_lse:
        lse = library.full(q, _lse_shape(arguments, options), float("-inf"), "float32")
        sink = name_all(options, beside).get(SINKS)
        if sink is not None:  # all that such rows sum up
            library.copy(lse, sink.reshape(-1, 1))
    if options.scores:  # of no element
        scores = library.full(q, _score_sizes(arguments), 0.0, "float32")
    return _deliver(library, out, join_results(o, lse if options.lse else None, scores))


def _deliver(library: Library, out: Any, result: Any) -> Any:
    """The result, in ``out`` where the caller gave one."""
    if out is None:
        return result
    if not isinstance(result, tuple):
        library.copy(out, result)
        return out
    if not isinstance(out, tuple):
        library.copy(out, result[0])
        return out, result[1]
    for target, source in zip(out, result):
        library.copy(target, source)
    return out


def _to_copy(arguments: Arguments, on_host: bool) -> Set[str]:
    """Tensors that a kernel does not take as they are."""
    fixed = set()
    for tensor in (arguments.q, arguments.k, arguments.v, arguments.o):
        if tensor and not (has_rows(tensor) and (tensor.is_aligned or on_host)):
            fixed.add(tensor.name)
    bias, lse = arguments.bias, arguments.lse
    if bias:
        _, strides = _bias_geometry(arguments)
        if min(strides) < 0 or strides[3] != 1:
            fixed.add("bias")
    if lse and not is_like(lse, arrays.contiguous_strides(lse.sizes)):
        fixed.add("out")
    # The copy back to the host covers what lies between the elements.
    if arguments.o and on_host and not is_dense(arguments.o):
        fixed.add("out")
    return fixed


def _check_caches(arguments: Arguments, fixed: Set[str]) -> None:
    """k and v, which are written in place."""
    for tensor in (arguments.k, arguments.v):
        if tensor.name in fixed:
            raise ValueError(
                f"expects {tensor.name} whose rows are aligned and whose columns lie side by side, "
                f"as {tensor.name}_new is appended to it, but got strides {tensor.strides}"
            )
        expect_no_overlap(tensor)


def _run_prepared(
    call: "_core.Call",
    prepare: Prepare,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
    beside: Any,
) -> Any:
    """With copies of what kernels do not read as it is, made at each call."""
    return call.run(q, k, v, bias, out, stream, prepare(beside, q))


def _run_autocast(
    library: Library,
    call: "_core.Call",
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
    beside: Any,
) -> Any:
    """Of float32, where a library computes attention in another type for a while."""
    if not library.autocasts(q, k, v):
        _refuse_type("float32")
    q, k, v = library.autocast(q, k, v)
    return _deliver(library, out, call.run(q, k, v, bias, None, stream, beside))


def _run_copied(
    library: Library,
    call: "_core.Call",
    fixed: Set[str],
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    out: Any,
    stream: Any,
    beside: Any,
) -> Any:
    q, k, v, bias = (
        arrays.dense(name, array) if name in fixed else array
        for name, array in (("q", q), ("k", k), ("v", v), ("bias", bias))
    )
    if "out" in fixed:
        return _deliver(library, out, call.run(q, k, v, bias, None, stream, beside))
    return call.run(q, k, v, bias, out, stream, beside)


# Kernels --------------------------------------------------------------------


def _bias_geometry(arguments: Arguments) -> Tuple[Sizes, Sizes]:
    """Sizes, 1 where broadcast, and strides of the bias."""
    bias = arguments.bias
    assert bias
    sizes = tuple(
        1 if stride == 0 and full > 1 else size
        for size, stride, full in zip(bias.sizes, bias.strides, _score_sizes(arguments))
    )
    return sizes, normal_strides(sizes, bias.strides)


def _bias_axes(arguments: Arguments) -> str:
    sizes, _ = _bias_geometry(arguments)
    return "".join(
        axis if size == full else "1"
        for axis, size, full in zip("bhqk", sizes, _score_sizes(arguments))
    )


def _o_layout(arguments: Arguments, options: Options) -> str:
    """The order in memory of an output that we allocate: that of q."""
    if options.layout == "bshd":
        return "bshd"
    if not arguments.has_permuted_outputs:
        return "bhsd"
    _, heads, seqlen, _ = arguments.q.sizes
    _, of_heads, of_seqlen, _ = arguments.q.strides
    return "bshd" if heads > 1 and seqlen > 1 and of_seqlen > of_heads else "bhsd"


def _scale(options: Options, head_dim: int) -> Optional[float]:
    """None where it is the default, so that both spellings have one kernel."""
    if options.scale is None:
        return None
    same = struct.pack("f", options.scale) == struct.pack("f", head_dim**-0.5)
    return None if same else options.scale


def _problem(
    arguments: Arguments, options: Options, target: "_core.Device"
) -> Tuple[Problem, Schedule]:
    """The problem that is compiled, and how."""
    bias = arguments.bias
    exact = Problem(
        arguments.q.sizes[3],
        arguments.v.sizes[3],
        SHORT[arguments.q.dtype],
        arguments.q.sizes[0],
        arguments.q.sizes[1],
        arguments.k.sizes[1],
        arguments.q.sizes[2],
        arguments.seqlen_k,
        options.causal,
        options.window_left,
        options.window_right,
        options.softcap,
        _scale(options, arguments.q.sizes[3]),
        _bias_axes(arguments) if bias else None,
        SHORT[bias.dtype] if bias else None,
        options.needs_lse,
        "strided",
        options.dropout,
        options.scores,
        "f32" if options.scores else None,
        *_append_words(arguments, options),
        arguments.blocks,
    )
    if _has_more(arguments, options):
        exact = replace(
            exact,
            operands=arguments.words,
            sizes=_further_sizes(arguments, options),
            regions=options.regions,
        )
    if options.static:
        exact = replace(exact, layout=_static_layout(arguments, options))
        return _unique(exact, arguments, options), options.schedule
    problem, schedule = exact.kernel_class(
        target.multiprocessors,
        None,
        INVARIANT in options.schedule,
        options.has_few_queries,
        kernels.chip_for(target),
    )
    problem = _unique(problem, arguments, options)
    chosen = {name for name, _ in options.schedule}
    if chosen:  # of one kernel, for all sizes
        chosen.add(GRID)
    ours = tuple(option for option in schedule if option[0] not in chosen)
    return problem, options.schedule + ours


def _further_sizes(arguments: Arguments, options: Options) -> "Tuple[Tuple[str, int | str], ...]":
    """``Problem.sizes``."""
    sizes: "List[Tuple[str, int | str]]" = []
    if arguments.has_pages:
        sizes.append(("page_size", arguments.k.sizes[2]))
    ends = arguments.of_clause(ENDS[0])
    if ends:  # a kernel for one number of them serves all
        sizes.append(("sequences", "?" if options.static else max(ends.sizes[0] - 1, 1)))
    return tuple(sizes)


def _has_more(arguments: Arguments, options: Options) -> bool:
    """Whether it is more than q, k, v and a bias."""
    return bool(arguments.captured or options.regions or options.scores)


def _unique(problem: Problem, arguments: Arguments, options: Options) -> Problem:
    """The same in the compiler's words, since a word may bring others along."""
    return Problem.parse(problem.words()) if _has_more(arguments, options) else problem


def _append_words(
    arguments: Arguments, options: Options
) -> Tuple[Optional[int], Optional[str]]:
    """``Problem.append`` and ``Problem.rotary``."""
    new = arguments.of_clause(NEW_ROWS[0])
    if new is None:
        return None, None
    dim = arguments.rotary_dim
    style = "interleaved" if options.rotary_interleaved else "half"
    return new.sizes[2], None if dim is None else f"{dim}:{style}"


def _static_layout(arguments: Arguments, options: Options) -> str:
    if arguments.has_pages or arguments.appends or _has_spare_blocks(arguments, options):
        return "strided"
    tensors = [arguments.q, arguments.k, arguments.v]
    if arguments.o:
        tensors.append(arguments.o)
    layout = _o_layout(arguments, options)
    plain = all(is_like(tensor, strides_of(tensor.sizes, layout)) for tensor in tensors)
    if arguments.bias:
        sizes, strides = _bias_geometry(arguments)
        plain = plain and strides == arrays.contiguous_strides(sizes)
    return layout if plain else "strided"


def _has_spare_blocks(arguments: Arguments, options: Options) -> bool:
    """Whether lists have more blocks than q and k, of which dense words have none."""
    if not options.block_size:
        return False
    rows = arguments.q.sizes[2], arguments.k.sizes[2]
    return any(
        count > blocks_of(total, size)
        for count, total, size in zip(arguments.list_sizes[2:], rows, options.block_size)
    )


def _o_axes(of_o: Sizes, options: Options) -> Sizes:
    """Sizes or strides of o, in the axes of the caller."""
    return reorder(of_o, options.layout)[1 if options.without_batch else 0 :]


def _lse_shape(arguments: Arguments, options: Options) -> Sizes:
    return arguments.o_sizes[1 if options.without_batch else 0 : 3]


def _specs(arguments: Arguments, options: Options, layout: str) -> Tuple[List[Spec], Sizes]:
    """The tensors of a plan, and the strides of o."""
    o_sizes = arguments.o_sizes
    o_strides = strides_of(o_sizes, _o_layout(arguments, options))
    if arguments.o:
        o_strides = arguments.o.strides

    def spec(name: str, sizes: Sizes, strides: Sizes) -> Spec:
        # A kernel for one layout takes its strides alone.
        known = strides_of(sizes, layout) if layout != "strided" else normal_strides(sizes, strides)
        return (name, 2, name == "o", sizes, known)

    specs = [spec(t.name, t.sizes, t.strides) for t in (arguments.q, arguments.k, arguments.v)]
    if arguments.bias:
        bytes_each = 4 if arguments.bias.dtype == "float32" else 2
        specs.append(("bias", bytes_each, False, *_bias_geometry(arguments)))
    for tensor in arguments.captured:
        bytes_each = _CAPTURED_BYTES.get(tensor.dtype, 2)
        strides = normal_strides(tensor.sizes, tensor.strides)
        specs.append((tensor.name, bytes_each, False, tensor.sizes, strides))
    specs.append(spec("o", o_sizes, o_strides))
    if options.needs_lse:
        sizes = o_sizes[:3]
        specs.append(("lse", 4, True, sizes, arrays.contiguous_strides(sizes)))
    if options.scores:
        sizes = _score_sizes(arguments)
        specs.append(("scores", 4, True, sizes, arrays.contiguous_strides(sizes)))
    return specs, o_strides


def _sources(arguments: Arguments, specs: Sequence[Spec]) -> Tuple[int, ...]:
    """Which argument of _core each tensor of a plan is."""
    names = (*_FIXED, *(tensor.name for tensor in arguments.captured))
    return tuple(names.index(name) for name, *_ in specs)


def _load_on_device(
    library: Library, options: Options, target: "_core.Device", problem: Problem, schedule: Schedule
) -> kernels.Loaded:
    if not library.is_capturing() or kernels.is_loaded(target, problem, schedule):
        return kernels.load(target, problem, schedule, is_of_sizes=not options.schedule)
    # One for calls of other sizes is slower, but what was called once can be captured.
    other = None if options.schedule else kernels.find_for_other_sizes(target, problem)
    if other is None:
        raise Error(f"{not_loaded('flashcore.attention')} ({abridge(problem.words())})")
    return other


def _make_launch(
    library: Library, options: Options, arguments: Arguments, q: Any
) -> "_core.Launch":
    target = kernels.device("cuda", arguments.q.device[1])
    problem, schedule = _problem(arguments, options, target)
    loaded = _load_on_device(library, options, target, problem, schedule)
    specs, o_strides = _specs(arguments, options, problem.layout)
    plan = loaded.module.plan(specs)
    sizes, strides = arguments.o_sizes, reorder(o_strides, options.layout)
    of_o = _o_axes(sizes, options), _o_axes(o_strides, options)
    o = library.allocation(q, *of_o, arguments.q.dtype)
    same = library.same_allocation()
    if same and arguments.q.sizes == sizes and is_like(arguments.q, o_strides):
        o = same, None, {}

    def of_floats(sizes: Sizes) -> Any:
        return library.allocation(q, sizes, arrays.contiguous_strides(sizes), "float32")

    space = library.allocation(q, (plan.workspace_bytes,), (1,), "uint8")
    return _core.make_launch(
        plan,
        o,
        of_floats(_lse_shape(arguments, options)) if options.needs_lse else None,
        of_floats(_score_sizes(arguments)) if options.scores else None,
        space if plan.workspace_bytes else None,
        library.current_stream(),
        strides,
        _sources(arguments, specs),
        options.lse,
    )


def join_results(o: Any, lse: Any, scores: Any) -> Any:
    """What a call returns, of results that are None where nobody asked for them."""
    wanted = [result for result in (o, lse, scores) if result is not None]
    return tuple(wanted) if len(wanted) > 1 else o


def _expect_rising(given: Dict[str, Any]) -> None:
    """Of entries in host memory. Sequences that overlap would write the same rows."""
    for name in ENDS:
        if name not in given:
            continue
        view = _core.view(given[name], None, name)
        (count,) = view.shape
        entries = (ctypes.c_int32 * count).from_address(view.pointer)
        for i, (first, last) in enumerate(zip(entries, entries[1:]), 1):
            if last < first:
                raise ValueError(
                    f"expects {name}[{i}] to be at least {name}[{i - 1}] ({first}), but "
                    f"got {last}: sequences lie one after another"
                )


def _outputs(
    library: Library, options: Options, arguments: Arguments, strides: Sizes, q: Any, out: Any
) -> Tuple[Any, Any, Any]:
    """o, lse and scores, made where the caller gave none; None for what nobody wants."""
    o, lse = out if isinstance(out, tuple) else (out, None)
    if o is None:
        shape = _o_axes(arguments.o_sizes, options)
        o = library.empty(q, shape, _o_axes(strides, options), arguments.q.dtype)
    if options.needs_lse and lse is None:
        sizes = _lse_shape(arguments, options)
        lse = library.empty(q, sizes, arrays.contiguous_strides(sizes), "float32")
    scores = None
    if options.scores:
        sizes = _score_sizes(arguments)
        scores = library.empty(q, sizes, arrays.contiguous_strides(sizes), "float32")
    return o, lse, scores


def _make_host_run(library: Library, options: Options, arguments: Arguments, kind: str) -> Run:
    target = kernels.device("emulator" if kind == "reference" else kind)
    problem, schedule = _problem(arguments, options, target)
    loaded = kernels.load(target, problem, schedule, is_of_sizes=not options.schedule)
    specs, o_strides = _specs(arguments, options, problem.layout)
    plan = None if kind == "reference" else loaded.module.plan(specs)
    sources = _sources(arguments, specs)

    def run(q: Any, k: Any, v: Any, bias: Any, out: Any, stream: Any, beside: Any) -> Any:
        o, lse, scores = _outputs(library, options, arguments, o_strides, q, out)
        given = name_all(options, beside)
        tensors = [q, k, v, bias, o, lse, scores, *given.values()]
        views = [_core.view(tensors[source], None) for source in sources]
        pointers = [view.pointer for view in views]
        _expect_rising(given)
        if plan is None:
            loaded.bundle.compute_reference(specs, pointers, os.cpu_count() or 1)
        else:
            plan.run_on_host(pointers)
        return join_results(o, lse if options.lse else None, scores)

    return run
