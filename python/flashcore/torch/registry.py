"""FlashCore in PyTorch's registry of flash attentions, which PyTorch has from 2.11 on.

    import flashcore.torch
    torch.nn.attention.activate_flash_attention_impl("flashcore")
    torch.nn.attention.restore_flash_attention_impl()

What is activated registers kernels with PyTorch's dispatcher, so whoever calls these
operators reaches FlashCore: the function as a module imported it before, C++ code, and
``torch.nn.attention.varlen.varlen_attn``. There are two kinds:

- ``aten::scaled_dot_product_attention`` is asked in front of PyTorch's choice of a
  backend. It takes calls that need no gradient, masks among them, and makes no
  log-sum-exp, which nobody would read.
- The operators of the flash backend (:data:`_FLASH`) return the log-sum-exp, and
  nothing tells them whether it is read: PyTorch's own backward pass does, in eager
  code and in graphs that were compiled.

A call that FlashCore does not take goes to the kernel that PyTorch had there.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.attention

from flashcore.attention import attention
from flashcore.errors import Error, UnsupportedError
from flashcore.operators import gradients
from flashcore.operators.fallback import warn_once
from flashcore.torch import dropin

__all__ = ["NAME", "install", "register"]

NAME = "flashcore"


def register(name: str = NAME) -> bool:
    """Tells PyTorch of FlashCore, which it activates when it is asked to.

    Returns whether this PyTorch has a registry.
    """
    registry = getattr(torch.nn.attention, "register_flash_attention_impl", None)
    if registry is None:
        return False
    registry(name, register_fn=install)
    return True


class Handle:
    """What PyTorch keeps as long as FlashCore is active."""

    def __init__(self, library: torch.library.Library) -> None:
        self._library: Any = library

    def remove(self) -> None:
        """Gives the operators back to PyTorch's own kernels."""
        library, self._library = self._library, None
        if library is not None:
            library._destroy()


class Own(NamedTuple):
    """A kernel that PyTorch had for an operator. emulate: whether FlashCore's runs on the
    emulator, as it does for tensors in host memory."""

    kernel: Any
    emulate: bool

    def __call__(self, keys: Any, *arguments: Any, **options: Any) -> Any:
        return self.kernel.call_boxed(keys, *arguments, **options)


def install(device: str = "CUDA", emulate: bool = False) -> Handle:
    """Puts FlashCore in front of PyTorch's kernels for a device.

    device: as the dispatcher calls it. emulate: whether tensors in host memory are taken.

    Raises flashcore.Error for a PyTorch that has no such kernels.
    """
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call, unused-ignore]
    # All are looked up before one of them is replaced.
    owns = [
        (name, key, make, Own(_kernel_of(name, key), emulate))
        for name, (make, keys) in _KERNELS.items()
        if hasattr(torch.ops.aten, name)
        for key in (key.format(device) for key in keys)
    ]
    with warnings.catch_warnings():
        # PyTorch says of the first kernel of a process that it takes another's place.
        warnings.filterwarnings("ignore", message="Warning only once for all operators")
        for name, key, make, own in owns:
            library.impl(name, make(own), key, with_keyset=True, allow_override=True)
    return Handle(library)


def _kernel_of(name: str, key: str) -> Any:
    try:
        return torch.library.get_kernel(f"aten::{name}", key)
    except RuntimeError as error:
        raise Error(
            f"expects a PyTorch with a kernel of aten::{name} for {key}, but {torch.__version__} "
            f"says: {str(error).splitlines()[0]}"
        ) from None


# In front of the choice of a backend ------------------------------------------


def _make_sdpa(own: Own) -> Callable[..., torch.Tensor]:
    def sdpa(
        keys: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: Optional[torch.Tensor] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        def by_torch(*arguments: Any, **options: Any) -> torch.Tensor:
            result: torch.Tensor = own(keys, *arguments, **options)
            return result

        if is_left_to_torch(query, key, value, attn_mask):
            return by_torch(
                query, key, value, attn_mask, dropout_p, is_causal,
                scale=scale, enable_gqa=enable_gqa,
            )  # fmt: skip
        return dropin.run(
            by_torch, own.emulate, "fallback",
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        )  # fmt: skip

    return sdpa


def is_left_to_torch(query: torch.Tensor, *others: Optional[torch.Tensor]) -> bool:
    """Whether PyTorch chooses a backend for a call, which may be FlashCore's operators still.

    So it is for calls that need gradients or are traced, and where the program does
    without the flash backend (``torch.nn.attention.sdpa_kernel``).
    """
    return (
        not torch._C._get_flash_sdp_enabled()
        or dropin.attention_module.is_traced(query)
        or gradients.needs_gradient(query, *others)
    )


# The operators of the flash backend --------------------------------------------


class Flash(NamedTuple):
    """A call of one of them. q, k, v: (batch, heads, seqlen, head_dim), or as ``layout``
    says; with cu_seqlens_q (rows, heads, head_dim), and with block_table k and v are
    (pages, page_size, heads, head_dim). The others are as PyTorch has them."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens_q: Optional[torch.Tensor] = None
    cu_seqlens_k: Optional[torch.Tensor] = None
    max_q: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    return_debug_mask: bool = False
    scale: Optional[float] = None
    window: Tuple[Any, Any] = (None, None)
    seqused_k: Optional[torch.Tensor] = None
    alibi_slopes: Optional[torch.Tensor] = None
    block_table: Optional[torch.Tensor] = None
    num_splits: Optional[int] = None
    out: Optional[torch.Tensor] = None
    layout: str = "bshd"


def reason_against(call: Flash, emulate: bool) -> Optional[str]:
    """Why FlashCore does not take a call; None if it does, or says itself why not."""
    device = call.q.device.type
    if device != "cuda" and not emulate:
        return f"it is on the device {device}"
    for name, tensor in (("query", call.q), ("key", call.k), ("value", call.v)):
        if tensor.dtype not in (torch.float16, torch.bfloat16):
            return f"{name} is of {tensor.dtype}, and not of float16 or bfloat16"
    # Its backward pass draws again what was dropped, as PyTorch does.
    if call.dropout_p:
        return "it has dropout, and PyTorch's flash operators draw what their backward pass reads"
    if call.return_debug_mask:
        return "it asks for the mask of a dropout"
    if call.cu_seqlens_q is None and (call.cu_seqlens_k is not None or call.block_table is not None):
        return "it has lengths of keys, and none of queries"
    if call.block_table is not None and call.seqused_k is None:
        return "it has a block_table without seqused_k"
    if call.alibi_slopes is not None and call.alibi_slopes.dim() != 1:
        return "its alibi_slopes are those of batch entries"
    return None


def options_of(call: Flash) -> Dict[str, Any]:
    """Those of flashcore.attention for a call."""
    left, right = (None if side is None or side < 0 else side for side in call.window)
    options: Dict[str, Any] = {
        # As flash-attn, and unlike PyTorch's SDPA: the last query sees the last key.
        "causal": call.is_causal,
        "window": (left, right),
        "scale": call.scale,
        "lse": True,
        "layout": call.layout,
        "alibi_slopes": call.alibi_slopes,
        "seqused_k": call.seqused_k,
        # One split of the keys is what PyTorch promises rows that are the same in any batch for.
        "batch_invariant": call.num_splits == 1,
    }
    if call.cu_seqlens_q is not None:
        options["cu_seqlens_q"] = call.cu_seqlens_q
        options["max_seqlen_q"] = call.max_q if type(call.max_q) is int else None
        paged = call.block_table is not None
        options["page_table" if paged else "cu_seqlens_k"] = (
            call.block_table if paged else call.cu_seqlens_k
        )
    return options


def may_have_empty_rows(call: Flash) -> bool:
    """Whether a query may see no key, as far as sizes tell."""
    if call.cu_seqlens_q is not None or call.seqused_k is not None:
        return True
    axis = 1 if call.layout == "bshd" else 2
    rows, keys = call.q.shape[axis], call.k.shape[axis]
    has_window = any(side is not None and side >= 0 for side in call.window)
    return keys == 0 or has_window or (call.is_causal and rows > keys)


def run(call: Flash) -> Tuple[torch.Tensor, torch.Tensor]:
    """(o, lse) by FlashCore. A query without keys has +inf for its lse, as flash-attn has."""
    options = options_of(call)
    q, k, v, out = call.q, call.k, call.v, call.out
    is_packed = call.cu_seqlens_q is not None
    if is_packed:
        q = q[None]
        k, v = (k, v) if call.block_table is not None else (k[None], v[None])
        out = out if out is None else out[None]
    if out is not None:
        lse = q.new_empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)
        options["out"] = (out, lse)
    with torch.no_grad():  # PyTorch sees to gradients in front of its kernels
        o, lse = attention(q, k, v, **options)
        if may_have_empty_rows(call):
            lse.masked_fill_(lse == -math.inf, math.inf)
    if is_packed:
        o, lse = o[0], lse[0]
    return (o if call.out is None else call.out), lse


def take(call: Flash, emulate: bool) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """:func:`run`, or None with a warning for what goes to PyTorch.

    Wrong arguments do, too: their errors are PyTorch's own.
    """
    reason = reason_against(call, emulate)
    if reason is None:
        try:
            return run(call)
        except (UnsupportedError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
    warn_once(reason)
    return None


def _auxiliary(query: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Seed, offset and mask of no dropout, which the backward pass does not read."""
    words = {"dtype": torch.uint64, "device": query.device}
    return torch.empty(2, **words), torch.empty((), **words), query.new_empty(0)


def _make_dense(own: Own) -> Callable[..., Any]:
    def dense(
        keys: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: Optional[float] = None,
    ) -> Any:
        call = Flash(
            query, key, value, dropout_p=dropout_p, is_causal=is_causal,
            return_debug_mask=return_debug_mask, scale=scale, layout="bhsd",
        )  # fmt: skip
        taken = take(call, own.emulate)
        if taken is None:
            return own(
                keys, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        seed, offset, mask = _auxiliary(query)
        return (*taken, None, None, query.shape[2], key.shape[2], seed, offset, mask)

    return dense


def _call_of(arguments: Sequence[Any], options: Dict[str, Any], **more: Any) -> Flash:
    """A call of ``aten::_flash_attention_forward``, with the parameters of its schema.

    Versions of PyTorch differ in the last of them.
    """
    q, k, v, cu_q, cu_k, max_q, _, dropout_p, is_causal, return_debug_mask = arguments
    window = options.get("window_size_left"), options.get("window_size_right")
    for name in ("scale", "seqused_k", "alibi_slopes", "block_table", "num_splits"):
        more[name] = options.get(name)
    return Flash(
        q, k, v, cu_q, cu_k, max_q, dropout_p, is_causal, return_debug_mask,
        window=window, **more,
    )  # fmt: skip


def _make_forward(own: Own) -> Callable[..., Any]:
    def forward(keys: Any, *arguments: Any, **options: Any) -> Any:
        taken = take(_call_of(arguments, options), own.emulate)
        if taken is None:
            return own(keys, *arguments, **options)
        return (*taken, *_auxiliary(arguments[0]))

    return forward


def _make_forward_into(own: Own) -> Callable[..., Any]:
    def forward_into(keys: Any, out: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        taken = take(_call_of(arguments, options, out=out), own.emulate)
        return own(keys, out, *arguments, **options) if taken is None else taken[1]

    return forward_into


_FLASH: Dict[str, Callable[[Own], Callable[..., Any]]] = {
    "_scaled_dot_product_flash_attention": _make_dense,
    "_flash_attention_forward": _make_forward,
    "_flash_attention_forward_no_dropout_inplace": _make_forward_into,
}
#: What makes a kernel of PyTorch's own one, and the dispatch keys that it is for.
_KERNELS: Dict[str, Tuple[Callable[[Own], Callable[..., Any]], Tuple[str, ...]]] = {
    # Tensors of inference mode have no autograd key.
    "scaled_dot_product_attention": (_make_sdpa, ("Autograd{}", "{}")),
    **{name: (make, ("{}",)) for name, make in _FLASH.items()},
}
