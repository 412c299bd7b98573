"""FlashCore in PyTorch.

``flashcore.attention`` takes PyTorch tensors as they are. Here is what PyTorch
needs besides:

- the operators ``torch.ops.flashcore.attention``, ``attention_lse``, ``attention_with``,
  ``attention_append`` and ``merge``, which ``torch.compile`` and ``torch.export`` see in place of
  ``flashcore.attention`` and ``flashcore.merge``;
- :func:`scaled_dot_product_attention` with the signature and meaning of
  PyTorch's, and :func:`sdpa`, :func:`enable` and :func:`disable`, which put it
  in the place of PyTorch's;
- FlashCore in PyTorch's registry of flash attentions, from PyTorch 2.11 on:
  ``torch.nn.attention.activate_flash_attention_impl("flashcore")``;
- :func:`set_on_grad`: what becomes of calls that need gradients, and :func:`fallbacks`: why
  calls went to PyTorch.
"""

from __future__ import annotations

from flashcore.operators import custom as _custom  # noqa: F401  # which registers them
from flashcore.operators.fallback import FallbackWarning, fallbacks
from flashcore.operators.gradients import on_grad, set_on_grad
from flashcore.torch import registry as registry
from flashcore.torch.dropin import scaled_dot_product_attention
from flashcore.torch.switch import disable, enable, is_enabled, sdpa

__all__ = [
    "FallbackWarning",
    "disable",
    "enable",
    "fallbacks",
    "is_enabled",
    "on_grad",
    "scaled_dot_product_attention",
    "sdpa",
    "set_on_grad",
]

registry.register()
