"""What type checkers know of calls: scripts/python-test.sh has mypy read it, nothing runs it."""

from typing import TYPE_CHECKING, Any, Tuple

import flashcore

if TYPE_CHECKING:
    from typing_extensions import assert_type


class Tensor:
    """Of any library."""


def check(q: Tensor, k: Tensor, v: Tensor, is_wanted: bool) -> None:
    assert_type(flashcore.attention(q, k, v), Tensor)
    assert_type(flashcore.attention(q, k, v, causal="top_left", window=(3, None)), Tensor)
    assert_type(flashcore.attention(q, k, v, lse=True), Tuple[Tensor, Tensor])
    assert_type(flashcore.attention(q, k, v, scores="masked"), Tuple[Tensor, Tensor])
    assert_type(
        flashcore.attention(q, k, v, lse=True, scores="masked"), Tuple[Tensor, Tensor, Tensor]
    )
    assert_type(flashcore.attention(q, k, v, lse=is_wanted), Any)
    assert_type(flashcore.merge([q, k], [q, k]), Tuple[Tensor, Tensor])
    flashcore.attention(q, k, v, causal="topleft")  # type: ignore[call-overload]
    flashcore.attention(q, k, v, layout="bsdh")  # type: ignore[call-overload]
    flashcore.attention(q, k, v, is_causal=True)  # type: ignore[call-overload]
