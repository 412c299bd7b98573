"""Random inputs of an attention, with NumPy or PyTorch, whichever is there."""

from __future__ import annotations

import importlib
import random
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from flashcore import arrays
from flashcore.blocks import blocks_of, size_of_word
from flashcore.cli.command import UsageError
from flashcore.operands import ANGLES, CLAUSES, ENDS, LENGTHS, LISTS, NEW_ROWS, PAGES, SEED
from flashcore.problem import Problem

__all__ = ["Inputs", "draw", "on_host", "time_on_gpu", "wait"]

Draw = Callable[[Tuple[int, ...], str], Any]


@dataclass(frozen=True)
class Inputs:
    """Arrays for ``flashcore.attention(layout=layout)``."""

    q: Any
    k: Any
    v: Any
    bias: Any
    layout: str
    is_on_gpu: bool
    #: Of clauses, by the names of arguments.
    beside: Dict[str, Any] = field(default_factory=dict)


def draw(problem: Problem, seed: int, kind: str) -> Inputs:
    """Inputs of a problem whose sizes are known; standard normal.

    On a GPU they are PyTorch's; without it NumPy's, which a call copies there.
    """
    is_on_gpu = kind == "cuda" and _can_import("torch")
    needs_bfloat16 = "bf16" in (problem.dtype, problem.bias_dtype)
    has_numpy = _can_import("numpy") and (not needs_bfloat16 or _can_import("ml_dtypes"))
    if is_on_gpu:
        make = _torch_draw(seed, "cuda")
    elif has_numpy:
        make = _numpy_draw(seed)
    elif _can_import("torch"):
        make = _torch_draw(seed, "cpu")
    else:
        wanted = "NumPy and ml_dtypes" if needs_bfloat16 else "NumPy"
        names = "numpy ml_dtypes" if needs_bfloat16 else "numpy"
        raise UsageError(f"expects {wanted} or PyTorch, but got none: pip install {names}")
    q, k, v, layout = _draw_qkv(problem, make)
    bias = None
    if problem.bias:
        full = (problem.batch, problem.heads_q, problem.seqlen_q, problem.seqlen_k)
        shape = tuple(1 if axis == "1" else size for axis, size in zip(problem.bias, full))
        bias = make(shape, problem.bias_dtype)  # type: ignore[arg-type]
    pool, beside = _Clauses(problem, make, layout, random.Random(seed), q).draw()
    k, v = pool or (k, v)
    return Inputs(q, k, v, bias, layout, is_on_gpu, beside)


#: Sequences of a problem that does not say how many.
_SEQUENCES = 3


class _Clauses:
    """Draws what stands beside q, k, v and bias, by the compiler's table of operands."""

    def __init__(
        self, problem: Problem, make: Draw, layout: str, generator: random.Random, like: Any
    ) -> None:
        self.problem = problem
        self.make = make
        self.layout = layout
        self.generator = generator
        self.like = like
        self.axes = dict(problem.sizes)
        self.has_sequences = "sequences" in self.axes or CLAUSES[ENDS[0]].word in problem.operands
        self.keys = problem.seqlen_k or 0
        sequences = self.axes.get("sequences", _SEQUENCES)
        self.entries = int(sequences) if self.has_sequences else problem.batch or 0

    def draw(self) -> "Tuple[Optional[Tuple[Any, Any]], Dict[str, Any]]":
        """The pools of pages that are k and v, if there are any; and the rest by its names."""
        beside = {
            name: self.make((self.problem.heads_q or 0,), "f32")
            for name, clause in CLAUSES.items()
            if clause.word in self.problem.operands and clause.axes == ("heads_q",)
        }
        pool = self._add_pages(beside)
        if self.has_sequences:
            of_q, of_k = ENDS
            beside[of_q] = self._ends(self.problem.seqlen_q or 0)
            if not pool:
                beside[of_k] = self._ends(self.keys)
        if CLAUSES[LENGTHS].word in self.problem.operands:
            lengths = [self.generator.randint(0, self.keys) for _ in range(self.entries)]
            beside[LENGTHS] = self._whole(lengths)
        if self.problem.append is not None:
            self._add_rows(beside, int(self.problem.append))
        if self.problem.dropout:
            beside[SEED] = self._whole([self.generator.getrandbits(62), 0], "int64")
        if self.problem.blocks:
            self._add_lists(beside, self.problem.blocks)
        return pool, beside

    def _whole(self, numbers: Sequence[int], dtype: str = "int32") -> Any:
        """Whole numbers where the other arrays are."""
        if not _is_torch(self.like):
            return importlib.import_module("numpy").array(numbers, dtype)
        torch = importlib.import_module("torch")
        return torch.tensor(numbers, dtype=getattr(torch, dtype), device=self.like.device)

    def _ends(self, rows: int) -> Any:
        """Of sequences back to back, of which some may be empty."""
        cuts = sorted(self.generator.randint(0, rows) for _ in range(self.entries - 1))
        return self._whole([0, *cuts, rows])

    def _rows(self, entries: int, rows: int, dim: int) -> Any:
        heads = self.problem.heads_kv or 0
        axes = (rows, heads) if self.layout == "bshd" else (heads, rows)
        return self.make((entries, *axes, dim), self.problem.dtype)

    def _add_pages(self, beside: Dict[str, Any]) -> "Optional[Tuple[Any, Any]]":
        if "page_size" not in self.axes:
            return None
        size = int(self.axes["page_size"])
        each = -(-self.keys // size)
        pages = list(range(self.entries * each))
        self.generator.shuffle(pages)
        table = [pages[i * each : (i + 1) * each] for i in range(self.entries)]
        beside[PAGES] = self._whole(table)  # type: ignore[arg-type]
        self.keys = each * size
        dims = self.problem.head_dim, self.problem.head_dim_v
        k, v = (self._rows(len(pages), size, dim) for dim in dims)
        return k, v

    def _add_rows(self, beside: Dict[str, Any], rows: int) -> None:
        """What is appended to keys that leave room for just that."""
        if rows > self.keys:
            raise UsageError(
                f"expects append of at most {self.keys} rows, those of k, but got {rows}"
            )
        beside[LENGTHS] = self._whole([self.keys - rows] * self.entries)
        for name, dim in zip(NEW_ROWS, (self.problem.head_dim, self.problem.head_dim_v)):
            beside[name] = self._rows(self.entries, rows, dim)
        if self.problem.rotary:
            # Numbers of any size turn as well as angles do.
            pairs = int(self.problem.rotary.split(":")[0]) // 2
            positions = self.keys + (self.problem.seqlen_q or 0)
            for name in ANGLES:
                beside[name] = self.make((positions, pairs), self.problem.dtype)

    def _add_lists(self, beside: Dict[str, Any], word: str) -> None:
        """Of a mask of half of the blocks, and the first of each row."""
        (queries, keys), axes = size_of_word(word), word.partition(":")[2]
        outer = [
            1 if axis == "1" else count or 0
            for axis, count in zip(axes, (self.problem.batch, self.problem.heads_q))
        ]
        rows, columns = blocks_of(self.problem.seqlen_q or 0, queries), blocks_of(self.keys, keys)
        counts: List[Any] = []
        indices: List[Any] = []
        for _ in range(outer[0] * outer[1] * rows):
            seen = [0, *(j for j in range(1, columns) if self.generator.random() < 0.5)]
            counts.append(len(seen))
            indices.append(seen + [0] * (columns - len(seen)))
        of_counts = self._whole(counts).reshape(*outer, rows)
        of_indices = self._whole(indices).reshape(*outer, rows, columns)
        beside.update(zip(LISTS, (of_counts, of_indices, of_counts * 0, of_indices)))




def _draw_qkv(problem: Problem, make: Draw) -> Tuple[Any, Any, Any, str]:
    b, hq, hkv = problem.batch or 0, problem.heads_q or 0, problem.heads_kv or 0
    sq, sk = problem.seqlen_q or 0, problem.seqlen_k or 0
    d, dv, dtype = problem.head_dim, problem.head_dim_v, problem.dtype
    if problem.layout == "packed":
        if d != dv:
            raise UsageError(f"expects packed with one head_dim, but got d{d}/{dv}")
        packed = make((b, sq, hq + 2 * hkv, d), dtype)
        return packed[:, :, :hq], packed[:, :, hq : hq + hkv], packed[:, :, hq + hkv :], "bshd"
    layout = "bshd" if problem.layout == "bshd" else "bhsd"

    def one(heads: int, seqlen: int, dim: int) -> Any:
        axes = (seqlen, heads) if layout == "bshd" else (heads, seqlen)
        return make((b, *axes, dim), dtype)

    return one(hq, sq, d), one(hkv, sk, d), one(hkv, sk, dv), layout


def _can_import(name: str) -> bool:
    try:
        importlib.import_module(name)
        return True
    except ImportError:
        return False


_LONG = {short: name for name, short in arrays.SHORT.items()}


def _numpy_draw(seed: int) -> Draw:
    import numpy

    generator = numpy.random.default_rng(seed)

    def make(shape: Tuple[int, ...], dtype: str) -> Any:
        values = generator.standard_normal(shape, numpy.float32)
        if dtype == "bf16":
            import ml_dtypes

            return values.astype(ml_dtypes.bfloat16)
        return values.astype(_LONG[dtype])

    return make


def _torch_draw(seed: int, device: str) -> Draw:
    import torch

    generator = torch.Generator(device)
    generator.manual_seed(seed)

    def make(shape: Tuple[int, ...], dtype: str) -> Any:
        values = torch.randn(shape, generator=generator, device=device)
        return values.to(getattr(torch, _LONG[dtype]))

    return make


def _is_torch(array: Any) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)


def on_host(array: Any) -> Any:
    """The array, or its copy in host memory."""
    return array.cpu() if _is_torch(array) else array


def wait(result: Any) -> None:
    """Until the GPU has computed a result."""
    first = result[0] if isinstance(result, tuple) else result
    if _is_torch(first) and first.is_cuda:
        sys.modules["torch"].cuda.synchronize()


def time_on_gpu(call: Callable[[], Any], replays: int = 15) -> List[float]:
    """Microseconds of the GPU for a call, of one CUDA graph replay each.

    A graph has as many calls as take about a millisecond. The inputs are the
    same each time, so small ones stay in the L2 cache.
    """
    import torch

    def record(count: int) -> "torch.cuda.CUDAGraph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        return graph

    def replay(graph: "torch.cuda.CUDAGraph") -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    call()
    torch.cuda.synchronize()
    single = record(1)
    replay(single)
    count = max(1, min(100, int(1e3 / replay(single))))
    graph = record(count)
    replay(graph)
    return [replay(graph) / count for _ in range(replays)]
