"""An attention backend of vLLM: ``vllm serve MODEL --attention-backend CUSTOM``.

The wheel's entry point in ``vllm.general_plugins`` makes it the backend ``CUSTOM`` in each
process of an engine; nothing else of vLLM changes. Written for vLLM 0.33, whose caches are
(blocks, heads_kv, block_size, 2 * head_size), K in front of V in each row.

Takes decoder, encoder and cross attention of float16 and bfloat16 with sliding windows,
softcaps, ALiBi, sinks, and ranges of a prompt that see each other (PrefixLM). What it does not
say it supports (caches of 8 bits and fewer, context parallelism, R-SWA), vLLM refuses by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, ClassVar, Dict, List, Optional, Tuple, Union

import torch
from vllm import envs
from vllm.v1.attention.backend import (
    AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder, AttentionType,
    CommonAttentionMetadata, MultipleOf,
)  # fmt: skip

from flashcore.attention import attention
from flashcore.errors import UnsupportedError

__all__ = ["Backend", "Implementation", "Metadata", "MetadataBuilder"]

#: The most columns of a head that kernels have.
_MAX_HEAD_SIZE = 256


@dataclass
class Metadata:
    """What all layers of a batch share. Tensors may be longer than the batch."""

    num_actual_tokens: int
    max_query_len: int
    #: int32 (requests + 1): where their queries begin, and the last end.
    query_start_loc: torch.Tensor
    #: int32 (requests): keys of each, its new ones among them.
    seq_lens: torch.Tensor
    #: int32 (requests, blocks of each).
    block_table: torch.Tensor
    causal: bool = True
    #: int32 (tokens, 2): the first and the last key of the range that a query is in, or -1.
    prefix_ranges: Optional[torch.Tensor] = None


class MetadataBuilder(AttentionMetadataBuilder[Metadata]):  # type: ignore[misc]
    #: Kernels read lengths and tables where they are; only sizes of tensors are in a graph.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.ALWAYS
    supports_update_block_table = True
    supports_draft_decode_metadata_update = True

    def __init__(
        self, kv_cache_spec: Any, layer_names: List[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._ranges: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
        if getattr(vllm_config.model_config, "is_mm_prefix_lm", False):
            shape = (vllm_config.scheduler_config.max_num_batched_tokens, 2)
            self._ranges = (
                torch.empty(shape, dtype=torch.int32, pin_memory=device.type == "cuda"),
                torch.empty(shape, dtype=torch.int32, device=device),
            )

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> Metadata:
        common = common_attn_metadata
        if isinstance(common.causal, torch.Tensor):
            raise UnsupportedError(
                "expects causal of True or False in FlashCore's backend, but got one of each "
                "request: choose another --attention-backend"
            )
        return Metadata(
            common.num_actual_tokens,
            common.max_query_len,
            common.query_start_loc,
            common.seq_lens,
            common.block_table_tensor,
            bool(common.causal),
            self._prefix_ranges(common),
        )

    def _prefix_ranges(self, common: CommonAttentionMetadata) -> Optional[torch.Tensor]:
        if common.mm_req_doc_ranges is None or self._ranges is None:
            return None
        from vllm.v1.attention.backends.utils import fill_mm_prefix_query_ranges

        on_host, on_device = self._ranges
        count = fill_mm_prefix_query_ranges(
            on_host.numpy(), common.mm_req_doc_ranges, common.query_start_loc_cpu,
            common.seq_lens_cpu_upper_bound,
        )  # fmt: skip
        if not count:
            return None
        # Rows of tokens that only fill up the batch are in none.
        on_host[count : common.num_actual_tokens].fill_(-1)
        ranges = on_device[: max(count, common.num_actual_tokens)]
        return ranges.copy_(on_host[: ranges.shape[0]], non_blocking=True)

    def update_block_table(
        self, metadata: Metadata, blk_table: torch.Tensor, slot_mapping: torch.Tensor
    ) -> Metadata:
        return replace(metadata, block_table=blk_table)

    def update_draft_decode_metadata(self, metadata: Metadata) -> None:
        """Nothing is planned ahead."""


class Backend(AttentionBackend):  # type: ignore[misc]
    supported_dtypes: ClassVar[List[torch.dtype]] = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes: ClassVar[List[str]] = ["auto", "float16", "bfloat16"]
    forward_includes_kv_cache_update = False
    supports_kv_cache_update_bypass = True

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> "type[Implementation]":
        return Implementation

    @staticmethod
    def get_builder_cls() -> "type[MetadataBuilder]":
        return MetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> List[Union[int, Any]]:
        return [MultipleOf(16)]

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 8 == 0 and 0 < head_size <= _MAX_HEAD_SIZE

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in (
            AttentionType.DECODER, AttentionType.ENCODER, AttentionType.ENCODER_ONLY,
            AttentionType.ENCODER_DECODER,
        )  # fmt: skip

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return (capability.major, capability.minor) >= (7, 0)

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_mm_prefix(cls) -> bool:
        return True


class Implementation(AttentionImpl[Metadata]):  # type: ignore[misc]
    can_return_lse_for_decode = False
    supports_quant_query_input = False

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: Optional[List[float]] = None,
        sliding_window: Optional[int] = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: Optional[float] = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: Optional[str] = None,
        sinks: Optional[torch.Tensor] = None,
    ) -> None:
        if kv_cache_dtype not in Backend.supported_kv_cache_dtypes:
            raise UnsupportedError(
                f"expects kv_cache_dtype of {', '.join(Backend.supported_kv_cache_dtypes)}, but "
                f"got {kv_cache_dtype!r}"
            )
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = float(scale)
        self.num_kv_heads = num_kv_heads
        self.attn_type = attn_type
        self.kv_cache_dtype = kv_cache_dtype
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks
        #: With the query's own key, as Transformers counts.
        self._window = None if sliding_window is None else sliding_window - 1
        # vLLM makes models with their device as that of new tensors.
        self.alibi_slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes)
        self._options: Dict[str, Any] = {
            "scale": self.scale,
            "alibi_slopes": self.alibi_slopes,
            "softcap": logits_soft_cap or None,
            "layout": "bshd",
            "batch_invariant": bool(envs.VLLM_BATCH_INVARIANT),
        }
        #: The cache, and the pages of K and V in it.
        self._pages: Tuple[Any, Any, Any] = (None, None, None)

    @property
    def sliding_window(self) -> Tuple[int, int]:
        """As FlashAttention's backend says it, for what asks layers of any."""
        return (-1, -1) if self._window is None else (self._window, 0)

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        if self.sinks is not None:
            self._options["sinks"] = self.sinks.detach().float()

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: Optional[torch.Tensor],
        value: Optional[torch.Tensor],
        kv_cache: torch.Tensor,
        attn_metadata: Optional[Metadata],
        output: torch.Tensor,
        output_scale: Optional[torch.Tensor] = None,
        output_block_scale: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """Attention of the tokens of a batch, to keys that are in the cache.

        query, output: (tokens, heads, head_size), of which attn_metadata counts those in use.
        key, value: (tokens, heads_kv, head_size), read where an encoder has no cache.
        kv_cache: (blocks, heads_kv, block_size, 2 * head_size).
        """
        if output_scale is not None or output_block_scale is not None:
            raise UnsupportedError("expects output_scale=None in FlashCore's backend, but got one")
        if attn_metadata is None:  # vLLM measures its memory
            return output.fill_(0)
        count = attn_metadata.num_actual_tokens
        if self.sinks is not None and "sinks" not in self._options:
            self.process_weights_after_loading(query.dtype)
        options = self._options
        if self.attn_type in (AttentionType.ENCODER, AttentionType.ENCODER_ONLY):
            assert key is not None and value is not None
            starts = attn_metadata.query_start_loc
            attention(
                query[None, :count], key[None, :count], value[None, :count],
                cu_seqlens_q=starts, cu_seqlens_k=starts, out=output[None, :count],
                window=(self._window, self._window), **options,
            )  # fmt: skip
            return output
        if kv_cache is not self._pages[0]:
            rows = kv_cache.transpose(1, 2)  # without a copy
            self._pages = (kv_cache, *rows.split(self.head_size, dim=-1))
        _, k, v = self._pages
        causal, window, mask = self._visible(attn_metadata)
        attention(
            query[None, :count], k, v, cu_seqlens_q=attn_metadata.query_start_loc,
            seqused_k=attn_metadata.seq_lens, page_table=attn_metadata.block_table,
            max_seqlen_q=attn_metadata.max_query_len, causal=causal, window=window,
            mask_mod=mask, out=output[None, :count], **options,
        )  # fmt: skip
        return output

    def _visible(
        self, metadata: Metadata
    ) -> Tuple[bool, Tuple[Optional[int], Optional[int]], Optional[Callable[..., Any]]]:
        """causal, window and mask_mod."""
        left = self._window
        if metadata.prefix_ranges is None or not metadata.causal:
            # A window looks both ways where queries see what is behind them.
            return metadata.causal, (left, None if metadata.causal else left), None
        ranges, starts = metadata.prefix_ranges, metadata.query_start_loc
        used = metadata.seq_lens

        def sees(b: Any, h: Any, i: Any, j: Any) -> Any:
            row = starts[b] + i
            own = used[b] - (starts[b + 1] - starts[b]) + i
            near = j <= own if left is None else (j <= own) & (j >= own - left)
            return near | ((j >= ranges[row, 0]) & (j <= ranges[row, 1]))

        return False, (None, None), sees

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Writes new rows of K and V. slot_mapping: int64 (tokens), -1 for none."""
        if self.attn_type in (AttentionType.ENCODER, AttentionType.ENCODER_ONLY):
            return
        k, v = kv_cache.transpose(1, 2).split(self.head_size, dim=-1)
        if key.is_cuda:
            from vllm._custom_ops import reshape_and_cache_flash

            reshape_and_cache_flash(
                key, value, k, v, slot_mapping, self.kv_cache_dtype, layer._k_scale, layer._v_scale
            )
            return
        slots = slot_mapping[slot_mapping >= 0]
        places = slots // k.shape[1], slots % k.shape[1]
        for pages, rows in ((k, key), (v, value)):
            pages[places] = rows[: slot_mapping.shape[0]][slot_mapping >= 0]
