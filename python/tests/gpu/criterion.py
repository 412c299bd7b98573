"""FlashAttention's criterion for results."""

import torch

from torch_inputs import reference


def assert_exact_enough(actual, q, k, v, **options):
    """Compares o, or (o, lse), with the formula in float32.

    The largest error is at most twice that of the same formula in the type of q, plus
    1e-5, and never less than one step of that type at the value expected. lse is within
    2e-5 relative to 1 + its size.
    """
    exact = reference(q, k, v, dtype=torch.float32, **options)
    rounded = reference(q, k, v, dtype=q.dtype, **options)
    if not isinstance(exact, tuple):
        actual, exact, rounded = (actual,), (exact,), (rounded,)
    step = torch.finfo(q.dtype).eps
    for name, ours, wanted, other in zip(("o", "lse"), actual, exact, rounded):
        assert ours.shape == wanted.shape
        finite = torch.isfinite(wanted)
        assert torch.equal(ours[~finite].float(), wanted[~finite].float())
        if not finite.any():
            continue
        yardstick = (other.float() - wanted)[finite].abs().max()
        allowed = torch.maximum(2 * yardstick + 1e-5, step * wanted[finite].abs())
        if name == "lse":
            allowed = 2e-5 * (1 + wanted[finite].abs())
        excess = (ours.float() - wanted)[finite].abs() - allowed
        assert excess.max() <= 0, (
            f"expects {name} within {allowed[excess.argmax()].item():.2e}, but got "
            f"{(excess.max() + allowed[excess.argmax()]).item():.2e} off"
        )
