"""Attention backends of serving engines: ``vllm`` and ``sglang``, each of the engine's name.

The wheel's entry points call the functions here, which import neither.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register_sglang", "register_vllm"]


def register_vllm() -> None:
    """Makes FlashCore vLLM's backend CUSTOM, where no other has that name."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    if not AttentionBackendEnum.CUSTOM.is_overridden():
        register_backend(AttentionBackendEnum.CUSTOM, "flashcore.serving.vllm.Backend")


def register_sglang() -> None:
    """Adds the backend flashcore to SGLang's, and to the choices of --attention-backend."""
    from sglang.srt.arg_groups.choices import add_attention_backend_choices
    from sglang.srt.layers.attention.attention_registry import (
        ATTENTION_BACKENDS, register_attention_backend,
    )  # fmt: skip

    if "flashcore" not in ATTENTION_BACKENDS:
        register_attention_backend("flashcore")(_make_sglang)
        add_attention_backend_choices(["flashcore"])


def _make_sglang(model_runner: Any) -> Any:
    from flashcore.serving.sglang import Backend

    return Backend(model_runner)
