"""The attentions that are timed, by name."""

import dataclasses
import math
import re

from .errors import UserError


@dataclasses.dataclass(frozen=True)
class Problem:
    """One forward attention with every size known. `group` is the table it
    belongs to."""

    name: str
    group: str
    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    causal: bool
    dtype: str = "f16"

    @property
    def shape(self):
        return (
            self.batch,
            self.heads_q,
            self.heads_kv,
            self.seqlen_q,
            self.seqlen_k,
        )

    @property
    def dims(self):
        names = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
        head_dims = {"head_dim": self.head_dim, "head_dim_v": self.head_dim}
        return dict(zip(names, self.shape)) | head_dims

    @property
    def flops(self):
        """As FlashAttention counts them: half when causal."""
        pairs = self.seqlen_q * self.seqlen_k / (2 if self.causal else 1)
        return 4 * self.batch * self.heads_q * pairs * self.head_dim

    @property
    def tensor_bytes(self):
        """Of q, k, v and o: what must move once between DRAM and the chip."""
        rows = self.heads_q * self.seqlen_q + self.heads_kv * self.seqlen_k
        return 2 * self.batch * 2 * rows * self.head_dim

    def describe(self):
        heads = (
            f"{self.heads_q}"
            if self.heads_q == self.heads_kv
            else f"{self.heads_q}/{self.heads_kv}"
        )
        return (
            f"B{self.batch} H{heads} S{self.seqlen_q}x{self.seqlen_k} "
            f"D{self.head_dim} {'causal' if self.causal else 'dense'}"
        )

    def mlir(self, attention, is_dynamic=False):
        """The kernel's source; a dynamic one knows its head_dim alone."""
        causal = "bottom_right" if self.causal else "none"
        shape = None if is_dynamic else self.shape
        return attention(self.dtype, self.head_dim, causal, shape)


TOKENS, HIDDEN = 16384, 2048
SEQLENS = (512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (64, 128, 256)


def all_problems(dtype="f16"):
    """The reference shape, small ones, FlashAttention's grid of 16k tokens,
    and prefill and decode of a model with grouped heads, with one query and
    with the few of speculative decoding."""
    rows = []

    def add(
        name, group, batch, heads_q, heads_kv, sq, sk, d, masks="dense causal"
    ):
        for mask in masks.split():
            sizes = (batch, heads_q, heads_kv, sq, sk, d)
            rows.append(
                Problem(
                    f"{name}-{mask}", group, *sizes, mask == "causal", dtype
                )
            )

    add("reference", "small", 1, 8, 8, 512, 512, 64)
    for name, b, h, s, d in (
        ("bert-b1", 1, 12, 128, 64),
        ("vit-b8", 8, 16, 256, 64),
        ("small-d128", 1, 16, 1024, 128),
        ("gpt2-b4", 4, 12, 1024, 64),
        ("sdxl", 2, 10, 4096, 64),
    ):
        add(name, "small", b, h, h, s, s, d)
    for d in HEAD_DIMS:
        for s in SEQLENS:
            h = HIDDEN // d
            add(f"d{d}-s{s}", "throughput", TOKENS // s, h, h, s, s, d)
    for s in (4096, 16384):
        add(f"prefill-s{s}", "grouped", 1, 32, 8, s, s, 128, "causal")
    for b, keys in ((1, 8192), (16, 8192), (64, 8192), (1, 65536)):
        add(f"decode-b{b}-k{keys}", "grouped", b, 32, 8, 1, keys, 128, "dense")
    for b in (1, 16):
        for q in (4, 16):
            name = f"decode-b{b}-q{q}-k8192"
            add(name, "grouped", b, 32, 8, q, 8192, 128, "dense")
    return rows


QUICK = re.compile(
    r"reference-.*|bert-b1-dense|small-d128-dense|d(64|128|256)-s(512|4096)-.*"
    r"|decode-b(1|16)-k8192-.*"
)


def select(patterns=(), is_quick=False, dtype="f16"):
    """The problems whose whole name one of the regular expressions matches; a
    name without its mask stands for both."""
    problems = all_problems(dtype)
    if is_quick:
        problems = [p for p in problems if QUICK.fullmatch(p.name)]
    if not patterns:
        return problems
    chosen = set()
    for pattern in patterns:
        try:
            regex = re.compile(pattern)
        except re.error as error:
            raise UserError(f"'{pattern}' is no regular expression: {error}")
        names = {
            p.name
            for p in problems
            if regex.fullmatch(p.name)
            or regex.fullmatch(p.name.rsplit("-", 1)[0])
        }
        if not names:
            raise UserError(
                f"no problem is called '{pattern}'; flashcore-bench list shows all"
            )
        chosen |= names
    return [p for p in problems if p.name in chosen]


def input_sets(problem, budget_bytes=200_000_000):
    """How many sets of inputs to rotate over: as many as fit the budget, at
    most 8, so that one call rarely finds its inputs where the last left
    them."""
    return max(1, min(8, math.floor(budget_bytes / problem.tensor_bytes)))
