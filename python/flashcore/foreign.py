"""Arrays of libraries that we know nothing of but DLPack, such as JAX's.

They cannot be written, so results are made in memory of ours and handed over by
``from_dlpack`` of the library's namespace; where it has none, they stay what
they are (NumPy arrays, or objects with ``__dlpack__``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence, Tuple

from flashcore import _core
from flashcore.arrays import LEGACY_STREAM, wrap

__all__ = ["make_device_run", "run_on_host"]


def run_on_host(
    call: "_core.Call", q: Any, k: Any, v: Any, bias: Any, out: Any, stream: Any, beside: Any
) -> Any:
    """The call on the same memory as NumPy arrays."""
    _expect_no_out(q, out)

    def wrapped(name: str, array: Any) -> Any:
        return None if array is None else wrap(_core.view(array, None, name))

    wrapped_bias = wrapped("bias", bias)
    others = beside and tuple(wrapped("an argument", array) for array in beside)
    q_here, k_here, v_here = wrapped("q", q), wrapped("k", k), wrapped("v", v)
    return _deliver(call.run(q_here, k_here, v_here, wrapped_bias, None, None, others), q)


def _expect_no_out(q: Any, out: Any) -> None:
    if out is not None:
        raise ValueError(f"expects out=None for arrays of {type(q)}, which are not written")


def make_device_run(
    plan: "_core.Plan",
    device: "_core.Device",
    ordinal: int,
    outputs: Mapping[str, Tuple[Sequence[int], str]],
    returned: Sequence[str],
    sources: Sequence[int],
) -> Callable[..., Any]:
    """Runs a plan whose outputs are memory of ours.

    Inputs are waited for in CUDA's legacy stream, or the one the caller names,
    and outputs are done when this returns.

    outputs: the shape and type of o, and of lse and scores if there are any.
    returned: the names of those that the caller gets.
    sources: what each tensor of the plan is among q, k, v, bias, o, lse, scores and those
        beside these that are given.
    """

    def run(q: Any, k: Any, v: Any, bias: Any, out: Any, stream: Any, beside: Any) -> Any:
        _expect_no_out(q, out)
        used = stream or LEGACY_STREAM
        made: Dict[str, Any] = {
            name: _core.make_array(device, ordinal, tuple(shape), kind)
            for name, (shape, kind) in outputs.items()
        }
        results = (made.get(name) for name in ("o", "lse", "scores"))
        given = (array for array in beside or () if array is not None)
        tensors = [q, k, v, bias, *results, *given]
        # A view keeps what it was made of until the work is done.
        views = [_core.view(tensors[source], used) for source in sources]
        pointers = [view.pointer for view in views]
        space = 0
        if plan.workspace_bytes:
            memory = _core.make_array(device, ordinal, (plan.workspace_bytes,), "uint8")
            space = memory.pointer
        plan.launch(pointers, space, used)
        device.synchronize(used)
        arrays = tuple(made[name] for name in returned)
        return _deliver(arrays[0] if len(arrays) == 1 else arrays, q)

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
