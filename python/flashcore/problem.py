"""What an attention computes, and the words that the compiler takes for it."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

__all__ = ["Problem", "Schedule", "missing_columns"]

#: Options of the schedule, by their names on the command line: (("block-n", "64"),)
Schedule = Tuple[Tuple[str, str], ...]

#: The compiler splits the keys of a few queries over blocks; up to so many
#: queries have a kernel for their exact number, over at least so many keys.
FEW_QUERIES = 16
MANY_KEYS = 1024

#: Elements of 16 bytes, in which kernels copy rows.
ROW_STEP = 8


def missing_columns(head_dim: int) -> int:
    """By how much a head_dim falls short of one that has kernels; 0 if it has."""
    return max(-head_dim % ROW_STEP, 16 - head_dim)


@dataclass(frozen=True)
class Problem:
    """An attention. A size of None is open: one kernel serves all of them.

    batch, heads_q, heads_kv, seqlen_q, seqlen_k: sizes.
    head_dim, head_dim_v: always known.
    dtype: type of q, k, v and o, "f16" or "bf16".
    causal: None, "bottom_right" or "top_left".
    window_left, window_right: keys; None is unbounded.
    softcap, scale: None is no cap, and 1 / sqrt(head_dim).
    bias: its axes, such as "1h1k" where batch and query are broadcast.
    bias_dtype: "f16", "bf16" or "f32".
    lse: whether the log-sum-exp is an output.
    layout: "bhsd", "bshd", "packed", or "strided" for any strides.
    """

    head_dim: int
    head_dim_v: int
    dtype: str = "f16"
    batch: Optional[int] = None
    heads_q: Optional[int] = None
    heads_kv: Optional[int] = None
    seqlen_q: Optional[int] = None
    seqlen_k: Optional[int] = None
    causal: Optional[str] = None
    window_left: Optional[int] = None
    window_right: Optional[int] = None
    softcap: Optional[float] = None
    scale: Optional[float] = None
    bias: Optional[str] = None
    bias_dtype: Optional[str] = None
    lse: bool = False
    layout: str = "strided"

    def words(self) -> str:
        """The words of ``flashcore-compile --shape``, always in one order."""
        text = [
            f"b{_size(self.batch)}",
            f"h{_size(self.heads_q)}/{_size(self.heads_kv)}",
            f"s{_size(self.seqlen_q)}x{_size(self.seqlen_k)}",
            f"d{self.head_dim}/{self.head_dim_v}",
            self.dtype,
        ]
        if self.causal:
            text.append(f"causal={self.causal}")
        if self.window_left is not None or self.window_right is not None:
            text.append(f"window={_bound(self.window_left)},{_bound(self.window_right)}")
        if self.softcap is not None:
            text.append(f"softcap={self.softcap!r}")
        if self.scale is not None:
            text.append(f"scale={self.scale!r}")
        if self.bias:
            text.append(f"bias={self.bias}:{self.bias_dtype}")
        if self.lse:
            text.append("lse")
        text.append(self.layout)
        return " ".join(text)

    @staticmethod
    def parse(words: str) -> Problem:
        """Reads such words.

        What is left out is as on the command line: 'b1 h8 s512 d64 f16 bhsd'.
        Raises ValueError for a word that is none. Words that contradict each
        other are left to the compiler.
        """
        problem = Problem(64, 64, "f16", 1, 8, 8, 512, 512, layout="bhsd")
        for word in words.lower().split():
            problem = dataclasses.replace(problem, **_read_word(word))
        if problem.bias and not problem.bias_dtype:
            problem = dataclasses.replace(problem, bias_dtype=problem.dtype)
        return problem

    def kernel_class(self, multiprocessors: int) -> Tuple[Problem, Schedule]:
        """The problem whose kernel serves this one, and what to tell the schedule.

        Everything but head_dim is open, so that a new length or batch compiles
        nothing. One query, and up to 16 over at least 1024 keys, have kernels
        of their own: for their number, and for their heads, which a model does
        not change. These split the keys over blocks, the more the fewer blocks
        batch and heads make, but not into less than 256 keys of a window; of that
        there are six variants (1, 2, ... 32).
        """
        opened = dataclasses.replace(
            self,
            batch=None,
            heads_q=None,
            heads_kv=None,
            seqlen_q=None,
            seqlen_k=None,
            layout="strided",
        )
        queries, keys = self.seqlen_q, self.seqlen_k
        if queries is None or queries > FEW_QUERIES:
            return opened, ()
        if queries > 1 and keys is not None and keys < MANY_KEYS:
            return opened, ()
        few = dataclasses.replace(
            opened, seqlen_q=queries, heads_q=self.heads_q, heads_kv=self.heads_kv
        )
        if queries == 1 and few.causal == "bottom_right":
            # The last query sees the last key: nothing is hidden.
            few = dataclasses.replace(few, causal=None)
        if self.batch is None or self.heads_kv is None:
            return few, ()
        blocks = self.batch * self.heads_kv
        seen = self._keys_in_window()
        splits = 32
        while splits > 1 and (splits * blocks > 2 * multiprocessors or splits * 256 > seen):
            splits //= 2
        return few, (("key-splits", str(splits)),)

    def _keys_in_window(self) -> float:
        """How many keys the queries see, whatever the length."""
        ends = self.seqlen_q == 1 or self.causal == "bottom_right" or self.window_right == 0
        if self.window_left is None or self.seqlen_q is None or not ends:
            return math.inf
        return self.window_left + self.seqlen_q


def _size(size: Optional[int]) -> str:
    return "?" if size is None else str(size)


def _bound(keys: Optional[int]) -> str:
    return "inf" if keys is None else str(keys)


def _read_word(word: str) -> Dict[str, Any]:
    name, separator, value = word.partition("=")
    if separator or name in ("causal", "bias"):
        reader = _NAMED.get(name)
        if reader:
            try:
                return reader(value)
            except ValueError:
                pass
    elif word in ("f16", "bf16"):
        return {"dtype": word}
    elif word in ("bhsd", "bshd", "packed", "strided"):
        return {"layout": word}
    elif word == "lse":
        return {"lse": True}
    elif re.fullmatch(r"[bhsqkd](\d+|\?)([x/](\d+|\?))?", word):
        return _read_sizes(word)
    raise ValueError(f"expects words of flashcore-compile --shape, but got {word!r}")


def _read_sizes(word: str) -> Dict[str, Any]:
    sizes = [None if size == "?" else int(size) for size in re.split("[x/]", word[1:])]
    names = {
        "b": ("batch",),
        "h": ("heads_q", "heads_kv"),
        "s": ("seqlen_q", "seqlen_k"),
        "q": ("seqlen_q",),
        "k": ("seqlen_k",),
        "d": ("head_dim", "head_dim_v"),
    }[word[0]]
    if len(sizes) > len(names) or (word[0] == "d" and None in sizes):
        raise ValueError(f"expects sizes such as h32/8 or d128, but got {word!r}")
    if len(sizes) < len(names):
        sizes = sizes * 2
    return dict(zip(names, sizes))


def _read_causal(value: str) -> Dict[str, Any]:
    if value not in ("", "bottom_right", "top_left"):
        raise ValueError
    return {"causal": value or "bottom_right"}


def _read_window(value: str) -> Dict[str, Any]:
    left, _, right = value.partition(",")
    return {
        "window_left": None if left == "inf" else int(left),
        "window_right": None if right in ("", "inf") else int(right),
    }


def _read_bias(value: str) -> Dict[str, Any]:
    axes, _, dtype = value.partition(":")
    if not re.fullmatch("[b1][h1][q1][k1]", axes or "bhqk"):
        raise ValueError
    if dtype not in ("", "f16", "bf16", "f32"):
        raise ValueError
    return {"bias": axes or "bhqk", "bias_dtype": dtype or None}


_NAMED: dict[str, Callable[[str], Dict[str, Any]]] = {
    "causal": _read_causal,
    "window": _read_window,
    "softcap": lambda value: {"softcap": float(value)},
    "scale": lambda value: {"scale": float(value)},
    "bias": _read_bias,
}
