"""``flashcore.merge`` as an operator of PyTorch, and its formula, for gradients."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import torch

from flashcore import merge_kernel
from flashcore.kinds import expect_one_of
from flashcore.operators import batching, gradients
from flashcore.operators.custom import expect_traceable
from flashcore.operators.fallback import warn_once
from flashcore.options import LAYOUTS

__all__ = ["merge", "with_gradients"]

_library: Any = torch.library.Library("flashcore", "FRAGMENT")
# Lists of one tensor have all parts along its first axis.
_library.define(
    "merge(Tensor[] outputs, Tensor[] lses, Tensor? sinks=None, *, bool stacked_outputs=False, "
    "bool stacked_lses=False, str layout='bhsd', str? device=None) -> (Tensor o, Tensor lse)",
    tags=(torch.Tag.pt2_compliant_tag,),
)

Parts = Any


def merge(
    outputs: Parts,
    lses: Parts,
    sinks: Optional[torch.Tensor],
    *,
    layout: str,
    device: Optional[str],
    stream: Any,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """``flashcore.merge`` where PyTorch traces it; the arguments are its own."""
    expect_traceable(None, stream)
    if gradients.needs_gradient(*_listed(outputs), *_listed(lses), sinks):
        return with_gradients(outputs, lses, sinks, layout=layout)
    o, lse = torch.ops.flashcore.merge(
        _listed(outputs), _listed(lses), sinks, stacked_outputs=not _is_list(outputs),
        stacked_lses=not _is_list(lses), layout=layout, device=device,
    )  # fmt: skip
    return o, lse


def _is_list(parts: Parts) -> bool:
    return isinstance(parts, (list, tuple))


def _listed(parts: Parts) -> List[torch.Tensor]:
    return list(parts) if _is_list(parts) else [parts]


def with_gradients(
    outputs: Parts, lses: Parts, sinks: Optional[torch.Tensor], *, layout: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The formula of ``flashcore.merge``, in float32, as differentiable operators."""
    if gradients.on_grad() == "error":
        gradients.refuse("flashcore.merge")
    warn_once("it needs gradients, and merges")
    stacked, of_parts = (torch.stack(x) if _is_list(x) else x for x in (outputs, lses))
    if sinks is not None:
        sink = sinks.view(1, 1, -1, 1).expand(1, *of_parts.shape[1:])
        of_parts = torch.cat([of_parts, sink])
    # A row that saw nothing has an lse of -inf, and no NaN in its gradient.
    is_empty = (of_parts == -math.inf).all(0)
    of_parts = of_parts.masked_fill(is_empty, 0.0)
    lse = of_parts.logsumexp(0)
    weights = torch.exp(of_parts - lse)[: stacked.shape[0]].masked_fill(is_empty, 0.0)
    lse = lse.masked_fill(is_empty, -math.inf)
    if layout == "bshd":
        weights = weights.transpose(2, 3)
    o = (weights[..., None] * stacked.float()).sum(0).to(stacked.dtype)
    return o, lse


# Implementations ------------------------------------------------------------


def _run(
    outputs: Sequence[torch.Tensor],
    lses: Sequence[torch.Tensor],
    sinks: Optional[torch.Tensor] = None,
    *,
    stacked_outputs: bool = False,
    stacked_lses: bool = False,
    layout: str = "bhsd",
    device: Optional[str] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    o, lse = merge_kernel.run(
        expect_one_of("layout", layout, LAYOUTS),
        expect_one_of("device", device, (None, "cuda", "emulator")),
        outputs[0] if stacked_outputs else list(outputs),
        lses[0] if stacked_lses else list(lses), sinks, None,
    )  # fmt: skip
    return o, lse


def _fake(
    outputs: Sequence[torch.Tensor],
    lses: Sequence[torch.Tensor],
    sinks: Optional[torch.Tensor] = None,
    *,
    stacked_outputs: bool = False,
    stacked_lses: bool = False,
    **options: Any,
) -> Tuple[torch.Tensor, torch.Tensor]:
    shape = outputs[0].shape[1:] if stacked_outputs else outputs[0].shape
    rows = lses[0].shape[1:] if stacked_lses else lses[0].shape
    torch._check(
        len(shape) == 4 and len(rows) == 3,
        lambda: f"expects outputs of 4 axes and lses of 3, but got {shape} and {rows}",
    )
    return outputs[0].new_empty(shape), lses[0].new_empty(rows)


def _backward(ctx: Any, *gradients_of_results: Any) -> Any:
    gradients.refuse("torch.ops.flashcore.merge")


for _key in ("CPU", "CUDA"):
    _library.impl("merge", _run, _key)
torch.library.register_fake("flashcore::merge", _fake, lib=_library)
torch.library.register_autograd("flashcore::merge", _backward, lib=_library)
batching.register_looped("merge", _library)
