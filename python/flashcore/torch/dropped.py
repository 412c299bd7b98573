"""S_dmask of flash-attn: probabilities whose signs say what a dropout dropped.

Kernels draw what they drop and keep it nowhere; here PyTorch's operators draw the
same once more, where the words lie, by the formula of docs/Op.md.
"""

from __future__ import annotations

import math
from typing import Any, Sequence, Tuple

import torch

from flashcore.attention import attention
from flashcore.options import round_to_float32

__all__ = ["keys_of_pages", "keys_of_sequences", "kept", "probabilities_of_sequences", "s_dmask"]

_WORD = (1 << 32) - 1
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

#: Queries and keys of S_dmask are multiples of it, in flash-attn.
_MULTIPLE = 128


def s_dmask(
    probabilities: torch.Tensor, dropout_p: float, rng: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """The probabilities (batch, heads, seqlen_q, seqlen_k) as flash-attn returns them.

    Of dtype, negative (or -0) where they are dropped, and with zeros behind the rows and
    columns up to multiples of 128.
    """
    batch, heads, *rows = probabilities.shape
    is_kept = kept(dropout_p, rng, batch, heads, rows[0], rows[1])
    signed = torch.where(is_kept, probabilities, -probabilities).to(dtype)
    more = [-size % _MULTIPLE for size in rows]
    return torch.nn.functional.pad(signed, (0, more[1], 0, more[0]))


# Philox ---------------------------------------------------------------------


def kept(
    dropout_p: float, rng: torch.Tensor, batch: int, heads: int, seqlen_q: int, seqlen_k: int
) -> torch.Tensor:
    """Which elements of P kernels keep: bools (batch, heads, seqlen_q, seqlen_k)."""

    def count(size: int, *shape: int) -> torch.Tensor:
        return torch.arange(size, device=rng.device).reshape(shape)

    words = torch.stack([rng & _WORD, (rng >> 32) & _WORD], -1).flatten()
    entry, head = count(batch, batch, 1, 1, 1), count(heads, 1, heads, 1, 1)
    d = _philox((words[2], words[3], entry, head), (words[0], words[1]))
    # Four counters make the 32 keys of a group: each has a word for every 8 keys of it, with
    # halves for two keys that stand side by side.
    groups = -(-seqlen_k // 32)
    query, number = count(seqlen_q, 1, 1, seqlen_q, 1), count(4 * groups, 1, 1, 1, 4 * groups)
    zero = words.new_zeros(())
    w = torch.stack(_philox((query ^ d[0], number ^ d[1], d[2], d[3]), (zero, zero)), -1)
    halves = torch.stack([w & 0xFFFF, w >> 16], -1)
    shape = (batch, heads, seqlen_q, groups, 4, 4, 2)  # counter, word, half
    drawn = halves.reshape(shape).transpose(-3, -2).reshape(batch, heads, seqlen_q, 32 * groups)
    return drawn[..., :seqlen_k] >= math.floor(65536 * round_to_float32(dropout_p) + 0.5)


def _philox(
    counter: Sequence[torch.Tensor], key: Tuple[torch.Tensor, torch.Tensor]
) -> Tuple[torch.Tensor, ...]:
    """Philox4x32-10 of words in int64, whose products wrap and keep all bits."""
    c0, c1, c2, c3 = torch.broadcast_tensors(*counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((second >> 32) & _WORD) ^ c1 ^ k0,
            second & _WORD,
            ((first >> 32) & _WORD) ^ c3 ^ k1,
            first & _WORD,
        )
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


# Sequences back to back -----------------------------------------------------


def probabilities_of_sequences(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    max_seqlen_q: int,
    **options: Any,
) -> torch.Tensor:
    """(sequences, heads, max_seqlen_q, seqlen_k), of sequences that are padded for it.

    k: (sequences, seqlen_k, heads_kv, head_dim), of which seqused_k are there.
    """
    lengths = cu_seqlens_q.diff().long()
    # At the end of the padded rows, where masks that are aligned to the last query look.
    rows = torch.arange(max_seqlen_q, device=q.device)
    places = (cu_seqlens_q[1:, None] - max_seqlen_q + rows).clamp(0, max(q.shape[0] - 1, 0))
    padded = q[places] if q.shape[0] else q.new_zeros(*places.shape, *q.shape[1:])
    _, at_end = attention(padded, k, k, seqused_k=seqused_k, scores="probabilities", **options)
    is_there = rows < lengths[:, None]
    moved = (rows + (max_seqlen_q - lengths)[:, None]).clamp(0, max(max_seqlen_q - 1, 0))
    shape = (-1, at_end.shape[1], -1, at_end.shape[3])
    found = at_end.gather(2, moved[:, None, :, None].expand(shape))
    return torch.where(is_there[:, None, :, None], found, 0.0)


def keys_of_sequences(
    k: torch.Tensor, cu_seqlens_k: torch.Tensor, max_seqlen_k: int
) -> torch.Tensor:
    """k of (total_k, heads_kv, head_dim), as (sequences, max_seqlen_k, heads_kv, head_dim)."""
    rows = torch.arange(max_seqlen_k, device=k.device)
    places = (cu_seqlens_k[:-1, None] + rows).clamp(0, max(k.shape[0] - 1, 0))
    return k[places] if k.shape[0] else k.new_zeros(*places.shape, *k.shape[1:])


def keys_of_pages(k: torch.Tensor, block_table: torch.Tensor, max_seqlen_k: int) -> torch.Tensor:
    """k of (num_blocks, page_size, heads_kv, head_dim), in the same order."""
    rows = k[block_table.clamp(0, k.shape[0] - 1).long()].flatten(1, 2)
    return torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, max_seqlen_k - rows.shape[1]))
