"""Arrays of libraries that we know nothing of but DLPack, such as JAX's.

They cannot be written, so results are made in memory of ours and handed over by
``from_dlpack`` of the library's namespace; where it has none, they stay what
they are (NumPy arrays, or objects with ``__dlpack__``).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from flashcore import _core
from flashcore.arrays import LEGACY_STREAM, wrap

__all__ = ["make_device_run", "run_on_host"]


def run_on_host(
    call: "_core.Call", q: Any, k: Any, v: Any, bias: Any, out: Any, stream: Any
) -> Any:
    """The call on the same memory as NumPy arrays."""
    if out is not None:
        raise ValueError(f"expects out=None for arrays of {type(q)}, which are not written")
    named = zip(("q", "k", "v", "bias"), (q, k, v, bias))
    views = [None if array is None else _core.view(array, None, name) for name, array in named]
    wq, wk, wv, wbias = (None if view is None else wrap(view) for view in views)
    return _deliver(call.run(wq, wk, wv, wbias, None, None), q)


def make_device_run(
    plan: "_core.Plan",
    device: "_core.Device",
    ordinal: int,
    shapes: Sequence[Sequence[int]],
    dtype: str,
) -> Callable[..., Any]:
    """Runs a plan whose outputs, of ``shapes``, are memory of ours.

    Inputs are waited for in CUDA's legacy stream, or the one the caller names,
    and outputs are done when this returns.
    """

    def run(q: Any, k: Any, v: Any, bias: Any, out: Any, stream: Any) -> Any:
        if out is not None:
            raise ValueError(f"expects out=None for arrays of {type(q)}, which are not written")
        used = stream or LEGACY_STREAM
        views = [_core.view(array, used) for array in (q, k, v, bias) if array is not None]
        made = [
            _core.make_array(device, ordinal, tuple(shape), kind)
            for shape, kind in zip(shapes, (dtype, "float32"))
        ]
        space = 0
        if plan.workspace_bytes:
            memory = _core.make_array(device, ordinal, (plan.workspace_bytes,), "uint8")
            space = memory.pointer
        pointers = [view.pointer for view in views] + [array.pointer for array in made]
        plan.launch(pointers, space, used)
        device.synchronize(used)
        return _deliver(made[0] if len(made) == 1 else tuple(made), q)

    return run


def _deliver(result: Any, like: Any) -> Any:
    """The result as arrays of the library of ``like``."""
    if isinstance(result, tuple):
        return tuple(_deliver(part, like) for part in result)
    namespace = getattr(type(like), "__array_namespace__", None)
    if namespace is None:
        return result
    library = like.__array_namespace__()
    if hasattr(result, "__array_interface__"):
        return library.asarray(result)
    return library.from_dlpack(result)
