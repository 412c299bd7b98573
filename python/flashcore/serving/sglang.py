"""An attention backend of SGLang: ``sglang.launch_server --attention-backend flashcore``.

The wheel's entry point in ``sglang.srt.plugins`` adds ``flashcore`` to the backends and to the
choices of the option in each process of a server; nothing else of SGLang changes. Written for SGLang 0.5.23. Use ``--page-size 64`` or so: pages of one token, which
are its default, are read a row at a time.

Takes decoder and encoder-only attention of float16 and bfloat16 with sliding windows, softcaps and
sinks, and CUDA graphs of decoding. MLA, cross attention, speculative decoding and caches of 8 bits
are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

from flashcore.attention import attention
from flashcore.errors import UnsupportedError

__all__ = ["Backend", "Metadata"]


@dataclass
class Metadata:
    """What all layers of a batch share, a row a request."""

    #: int32 (requests + 1): where their queries begin, and the last end.
    starts: torch.Tensor
    #: int32 (requests): keys of each, its new ones among them.
    lengths: torch.Tensor
    #: int32 (requests, pages of each).
    pages: torch.Tensor
    max_queries: int


class Backend(AttentionBackend):  # type: ignore[misc]
    def __init__(self, model_runner: Any) -> None:
        super().__init__()
        pool = model_runner.token_to_kv_pool
        _expect_supported(model_runner, pool)
        self.token_to_kv_pool = pool
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.page_size = model_runner.page_size
        self.device = model_runner.device
        #: The first token of each page of a request that is as long as it may be.
        self._firsts = torch.arange(
            0, model_runner.model_config.context_len, self.page_size, device=self.device
        )
        self.forward_metadata: Optional[Metadata] = None
        #: Of CUDA graphs, for the most requests.
        self._captured: Optional[Metadata] = None
        self._sinks: Dict[int, torch.Tensor] = {}

    # Metadata -----------------------------------------------------------------

    def init_forward_metadata(self, forward_batch: Any) -> None:
        _expect_plain(forward_batch)
        count = forward_batch.batch_size
        if forward_batch.forward_mode.is_decode_or_idle():
            starts = torch.arange(count + 1, dtype=torch.int32, device=self.device)
            longest = 1
        else:
            each = forward_batch.extend_seq_lens
            starts = torch.nn.functional.pad(each.cumsum(0, dtype=torch.int32), (1, 0))
            on_host = forward_batch.extend_seq_lens_cpu
            # Nobody waits for the GPU to know: another kernel would be right, too.
            longest = max(on_host) if on_host else int(forward_batch.input_ids.shape[0])
        on_host = forward_batch.seq_lens_cpu
        width = self._firsts.shape[0]
        if on_host is not None and count:
            width = -(-int(on_host.max()) // self.page_size)
        self.forward_metadata = Metadata(
            starts,
            forward_batch.seq_lens.to(torch.int32),
            self._pages(forward_batch.req_pool_indices, width),
            longest,
        )

    def _pages(self, requests: torch.Tensor, width: int) -> torch.Tensor:
        firsts = self._firsts[:width]
        slots = self.req_to_token[requests[:, None], firsts[None, :]]
        return (slots // self.page_size).to(torch.int32)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)

        starts = torch.arange(max_bs + 1, dtype=torch.int32, device=self.device)
        self._captured = Metadata(
            starts, zeros(max_bs), zeros(max_bs, self._firsts.shape[0]), 1
        )

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """What a graph of decoding reads, for a batch of its size."""
        _expect_plain(forward_batch)
        if not forward_batch.forward_mode.is_decode_or_idle():
            raise UnsupportedError(
                "expects CUDA graphs of decoding alone in FlashCore's backend, but got one of "
                f"{forward_batch.forward_mode}: start the server without those of prefill"
            )
        captured = self._captured
        assert captured is not None
        count = forward_batch.batch_size
        # Views of the same memory at each replay.
        self.forward_metadata = Metadata(
            captured.starts[: count + 1], captured.lengths[:count], captured.pages[:count], 1
        )
        captured.lengths[:count].copy_(forward_batch.seq_lens[:count])
        captured.pages[:count].copy_(
            self._pages(forward_batch.req_pool_indices[:count], self._firsts.shape[0])
        )

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    # Layers -------------------------------------------------------------------

    def forward_extend(
        self,
        q: torch.Tensor,
        k: Optional[torch.Tensor],
        v: Optional[torch.Tensor],
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        sinks: Optional[torch.Tensor] = None,
        **others: Any,
    ) -> torch.Tensor:
        """Attention of the tokens of a batch, to keys that are in the pool.

        q: (tokens, heads * head_dim). k, v: new rows, written to the pool first.

        Returns (tokens, heads * v_head_dim).
        """
        _expect_plain_layer(layer, others)
        metadata = self.forward_metadata
        assert metadata is not None
        if save_kv_cache and k is not None and v is not None:
            self.token_to_kv_pool.set_kv_buffer(
                layer, KVWriteLoc(forward_batch.out_cache_loc, None), k, v
            )
        pools = (
            buffer.view(-1, self.page_size, *buffer.shape[1:])
            for buffer in (
                self.token_to_kv_pool.get_key_buffer(layer.layer_id),
                self.token_to_kv_pool.get_value_buffer(layer.layer_id),
            )
        )
        rows = q.reshape(1, -1, layer.tp_q_head_num, layer.qk_head_dim)
        causal = layer.attn_type != AttentionType.ENCODER_ONLY
        left = layer.sliding_window_size if layer.sliding_window_size > 0 else None
        o: torch.Tensor = attention(
            rows, *pools, cu_seqlens_q=metadata.starts, seqused_k=metadata.lengths,
            page_table=metadata.pages, max_seqlen_q=metadata.max_queries, causal=causal,
            window=(left, None if causal else left), softcap=layer.logit_cap or None,
            scale=layer.scaling, layout="bshd", sinks=self._logits(layer, sinks),
        )  # fmt: skip
        return o.view(-1, layer.tp_q_head_num * layer.v_head_dim)

    #: One query of each request: the metadata says so.
    forward_decode = forward_extend

    def _logits(self, layer: Any, sinks: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
        """As kernels take them: converted once, for graphs keep where they are."""
        if sinks is None or sinks.dtype == torch.float32:
            return sinks
        if layer.layer_id not in self._sinks:
            self._sinks[layer.layer_id] = sinks.float()
        return self._sinks[layer.layer_id]


def _expect_supported(model_runner: Any, pool: Any) -> None:
    """Of a model and its server."""
    name = type(pool).__name__
    reasons = {
        "MLA (--attention-backend flashinfer has it)": model_runner.use_mla_backend,
        "an encoder beside its decoder": model_runner.model_config.is_encoder_decoder,
        f"a cache of {model_runner.kv_cache_dtype}": model_runner.kv_cache_dtype
        not in (torch.float16, torch.bfloat16),
        f"a pool that is a {name} (--disable-hybrid-swa-memory has one for all layers)": hasattr(
            pool, "translate_loc_from_full_to_swa"
        ),
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise UnsupportedError(
                f"expects a decoder of one cache in FlashCore's backend, but got {reason}"
            )


def _expect_plain(forward_batch: Any) -> None:
    if forward_batch.spec_info is not None:
        raise UnsupportedError(
            "expects no speculative decoding in FlashCore's backend, but got "
            f"{type(forward_batch.spec_info).__name__}"
        )


def _expect_plain_layer(layer: Any, others: Dict[str, Any]) -> None:
    given = [name for name, value in others.items() if value is not None]
    if layer.is_cross_attention or layer.xai_temperature_len > 0 or given:
        what = given or ["cross attention" if layer.is_cross_attention else "xai_temperature_len"]
        raise UnsupportedError(
            f"expects a layer of plain attention in FlashCore's backend, but got {what[0]}"
        )
