"""Random inputs of an attention, with NumPy or PyTorch, whichever is there."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Tuple

from flashcore import arrays
from flashcore.cli.command import UsageError
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
    rng: Any = None
    #: seqused_k, k_new, v_new, rotary_cos and rotary_sin, as far as there are any.
    appended: Dict[str, Any] = field(default_factory=dict)


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
    rng = _draw_words(seed, is_on_gpu or not has_numpy, is_on_gpu) if problem.dropout else None
    appended = _draw_appended(problem, make, layout)
    return Inputs(q, k, v, bias, layout, is_on_gpu, rng, appended)


def _draw_appended(problem: Problem, make: Draw, layout: str) -> Dict[str, Any]:
    """What is appended to keys that leave room for just that."""
    if problem.append is None:
        return {}
    batch, rows = problem.batch or 0, int(problem.append)
    heads, keys = problem.heads_kv or 0, problem.seqlen_k or 0
    if rows > keys:
        raise UsageError(f"expects append of at most {keys} rows, those of k, but got {rows}")

    def new(dim: int) -> Any:
        axes = (rows, heads) if layout == "bshd" else (heads, rows)
        return make((batch, *axes, dim), problem.dtype)

    used = make((batch,), "f32") * 0 + (keys - rows)
    is_torch = _is_torch(used)
    appended = {
        "seqused_k": used.int() if is_torch else used.astype("int32"),
        "k_new": new(problem.head_dim),
        "v_new": new(problem.head_dim_v),
    }
    if problem.rotary:
        # Numbers of any size turn as well as angles do.
        pairs = int(problem.rotary.split(":")[0]) // 2
        positions = keys + (problem.seqlen_q or 0)
        for name in ("rotary_cos", "rotary_sin"):
            appended[name] = make((positions, pairs), problem.dtype)
    return appended


def _draw_words(seed: int, is_torch: bool, is_on_gpu: bool) -> Any:
    """Seed and offset of a dropout."""
    if not is_torch:
        return importlib.import_module("numpy").array([seed % 2**63, 0], "int64")
    torch = importlib.import_module("torch")
    return torch.tensor([seed % 2**63, 0], device="cuda" if is_on_gpu else "cpu")


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
