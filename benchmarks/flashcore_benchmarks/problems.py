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
    # What none of the problems below has, but one that a user gives may have.
    head_dim_v: int = None  # None is head_dim
    is_top_left: bool = False  # of causal
    window: tuple = (None, None)  # keys to the left and right
    softcap: float = None
    scale: float = None  # None is 1 / sqrt(head_dim)
    bias: tuple = None  # its type and axes: ("f32", "1h1k")
    lse: bool = False  # whether it is a result
    layout: str = "bhsd"  # or bshd: how the rows of q, k and v lie
    source: str = None  # MLIR

    def __post_init__(self):
        # JSON has lists; problems are compared.
        object.__setattr__(self, "window", tuple(self.window))
        object.__setattr__(self, "bias", self.bias and tuple(self.bias))

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
    def value_dim(self):
        return self.head_dim_v or self.head_dim

    @property
    def softmax_scale(self):
        return self.scale or self.head_dim**-0.5

    @property
    def has_window(self):
        return self.window != (None, None)

    @property
    def dims(self):
        names = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
        head_dims = {"head_dim": self.head_dim, "head_dim_v": self.value_dim}
        return dict(zip(names, self.shape)) | head_dims

    def bias_shape(self):
        sizes = (self.batch, self.heads_q, self.seqlen_q, self.seqlen_k)
        return tuple(
            1 if axis == "1" else size for axis, size in zip(self.bias[1], sizes)
        )

    def visible(self, query, key):
        """Whether the mask shows `key` to `query`: of numbers, or of tensors
        that broadcast."""
        place = query + (self.seqlen_k - self.seqlen_q)
        left, right = self.window
        shown = key >= 0
        if self.causal:
            shown = shown & (key <= (query if self.is_top_left else place))
        if left is not None:
            shown = shown & (key >= place - left)
        if right is not None:
            shown = shown & (key <= place + right)
        return shown

    def _count_keys(self, query):
        """Of those that visible() shows: they are a range."""
        place = query + self.seqlen_k - self.seqlen_q
        left, right = self.window
        first = 0 if left is None else max(0, place - left)
        last = self.seqlen_k - 1
        if self.causal:
            last = min(last, query if self.is_top_left else place)
        if right is not None:
            last = min(last, place + right)
        return max(0, last - first + 1)

    @property
    def pairs(self):
        """Of a query and a key that it sees. As FlashAttention counts them:
        half of all when causal with equal lengths."""
        pairs = self.seqlen_q * self.seqlen_k
        if not self.causal and not self.has_window:
            return pairs
        if not self.has_window and self.seqlen_q == self.seqlen_k:
            return pairs / 2
        return sum(map(self._count_keys, range(self.seqlen_q)))

    @property
    def flops(self):
        dims = self.head_dim + self.value_dim
        return 2 * self.batch * self.heads_q * self.pairs * dims

    @property
    def tensor_bytes(self):
        """Of the tensors: what must move once between DRAM and the chip."""
        rows = self.heads_q * self.seqlen_q + self.heads_kv * self.seqlen_k
        size = 2 * self.batch * rows * (self.head_dim + self.value_dim)
        if self.bias:
            size += math.prod(self.bias_shape()) * (
                4 if self.bias[0] == "f32" else 2
            )
        return size

    def describe(self):
        heads = (
            f"{self.heads_q}"
            if self.heads_q == self.heads_kv
            else f"{self.heads_q}/{self.heads_kv}"
        )
        dims = f"{self.head_dim}"
        if self.value_dim != self.head_dim:
            dims += f"/{self.value_dim}"
        words = [
            f"B{self.batch} H{heads} S{self.seqlen_q}x{self.seqlen_k} D{dims}"
        ]
        words.append("causal" if self.causal else "dense")
        words += ["top_left"] * self.is_top_left
        if self.has_window:
            sides = ("inf" if side is None else side for side in self.window)
            words.append("window={},{}".format(*sides))
        words += [f"softcap={self.softcap:g}"] if self.softcap else []
        words += [f"scale={self.scale:g}"] if self.scale else []
        words += ["bias={1}:{0}".format(*self.bias)] if self.bias else []
        words += [self.layout] if self.layout != "bhsd" else []
        return " ".join(words)

    def text(self, attention, is_dynamic=False):
        """What is compiled, words or a module; a dynamic one knows its head dims alone."""
        if self.source and not is_dynamic:
            return self.source
        alignment = "top_left" if self.is_top_left else "bottom_right"
        return attention(
            self.dtype,
            self.head_dim,
            alignment if self.causal else "none",
            None if is_dynamic else self.shape,
            head_dim_v=self.head_dim_v,
            window=self.window,
            softcap=self.softcap,
            scale=self.scale,
            bias=self.bias,
            lse=self.lse,
        )


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


FEATURES = "features"
# Lengths that tiles do not divide, and those beside them that they do.
ODD_LENGTHS = {1000: 1024, 3333: 3328}


def features(dtype="f16"):
    """What else an attention can be, at some 16k tokens. Not among
    all_problems(): they are timed where their names are asked for."""
    rows = []

    def add(name, seqlen, head_dim, masks="dense causal", **what):
        heads = HIDDEN // head_dim
        fields = {"heads_q": heads, "heads_kv": heads, "dtype": dtype} | what
        fields |= {"seqlen_q": seqlen, "seqlen_k": seqlen}
        for mask in masks.split():
            rows.append(
                Problem(
                    f"{FEATURES}-{name}-{mask}",
                    FEATURES,
                    batch=round(TOKENS / seqlen),
                    head_dim=head_dim,
                    causal=mask == "causal",
                    **fields,
                )
            )

    for d in (80, 96, 160, 192):
        add(f"d{d}", 4096, d)
    add("d192-v128", 4096, 192, head_dim_v=128)
    add("bf16", 4096, 128, dtype="bf16")
    add("heads32-8", 4096, 128, "causal", heads_q=32, heads_kv=8)
    add("window1024", 16384, 128, "causal", window=(1024, None))
    add("softcap", 4096, 128, softcap=30.0)
    add("bias", 4096, 128, bias=(dtype, "1hqk"))
    for d in (64, 128):
        for pair in ODD_LENGTHS.items():
            for seqlen in pair:
                add(f"d{d}-s{seqlen}", seqlen, d)
    return rows


def plain_name(feature):
    """Of the problem that one of features() compares with, if there is one:
    the same without the feature, or of the length beside it."""
    mask = "causal" if feature.causal else "dense"
    seqlen = ODD_LENGTHS.get(feature.seqlen_q)
    if seqlen:
        return f"{FEATURES}-d{feature.head_dim}-s{seqlen}-{mask}"
    return f"d{feature.head_dim}-s{feature.seqlen_q}-{mask}"


QUICK = re.compile(
    r"reference-.*|bert-b1-dense|small-d128-dense|d(64|128|256)-s(512|4096)-.*"
    r"|decode-b(1|16)-k8192-.*"
)


def select(patterns=(), is_quick=False, dtype="f16"):
    """Of the problems here and features() those whose whole name one of the
    regular expressions matches; a name without its mask stands for both."""
    problems = all_problems(dtype)
    if is_quick:
        problems = [p for p in problems if QUICK.fullmatch(p.name)]
    if not patterns:
        return problems
    problems += features(dtype)
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


def cold_input_sets(problem, cache_bytes):
    """How many sets to rotate over so that a call finds none of its inputs in a
    cache of this size: twice what it holds, and at most what a graph has
    calls."""
    return max(1, min(400, math.ceil(2 * cache_bytes / problem.tensor_bytes)))
