"""What an attention computes, and the words that the compiler takes for it."""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from flashcore import _core
from flashcore.kinds import NUMBER, describe, is_array, read

__all__ = [
    "Merge", "Problem", "Schedule", "invariant_schedule", "module_of", "row_step", "schedule_of",
    "schedule_with", "without_sizes",
]  # fmt: skip

#: Options of the schedule, by their names on the command line: (("block-n", "64"),)
Schedule = Tuple[Tuple[str, str], ...]

#: What ``batch_invariant`` stands for.
INVARIANT = ("invariance", "batch")

#: The compiler splits the keys of a few queries over blocks; up to so many
#: queries have a kernel for their exact number, over at least so many keys.
FEW_QUERIES = 16
MANY_KEYS = 1024
#: What a number of keys is taken for that is not known.
LONG = 1 << 30

#: The option for kernels of calls of some sizes, and what it is for large ones by default.
GRID, LARGE = "expected-grid", "any"
#: That for kernels of calls of few queries.
SPLITS = "key-splits"


def row_step(head_dim: int) -> int:
    """Elements that kernels copy at a time of rows of ``head_dim``, up to 16 bytes.

    Pointers and strides are multiples of them.
    """
    return min(head_dim & -head_dim, 8) or 8  # of no elements, what memory is aligned to


def schedule_of(options: object) -> Schedule:
    """A schedule from a dict or pairs: names with - or _, numbers or words.

    Raises TypeError for what is neither, a text such as "block-m=64" among it.
    """
    if options is None:
        return ()
    pairs = list(options.items()) if isinstance(options, dict) else options
    # What is a list is not asked further: PyTorch before 2.11 cannot trace the questions.
    if isinstance(pairs, (list, tuple)) or (
        isinstance(pairs, Iterable) and not isinstance(pairs, str) and not is_array(pairs)
    ):
        listed = list(pairs)
        if all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in listed):
            return tuple(sorted((_name_of(name), _choice_of(name, x)) for name, x in listed))
    raise TypeError(
        "expects schedule to be a dict or pairs of names and values, such as "
        f"{{'block_n': 64}}, but got {describe(options)}"
    )


def _name_of(option: Any) -> str:
    return str(read("schedule", option)).replace("_", "-")


def _choice_of(option: str, value: Any) -> str:
    word = value if isinstance(value, str) else read(f"{option} of schedule", value, NUMBER)
    return str(word)


def schedule_with(options: Any, batch_invariant: Any) -> Any:
    """A schedule as it was given, with what ``batch_invariant`` stands for if that is true."""
    is_invariant = batch_invariant is not False and read("batch_invariant", batch_invariant)
    return invariant_schedule(options) if is_invariant else options


def invariant_schedule(options: object) -> Schedule:
    """The same with what ``batch_invariant`` stands for."""
    given = [pair for pair in schedule_of(options) if pair[0] != "invariance"]
    return tuple(sorted([*given, INVARIANT]))


def without_sizes(schedule: Schedule) -> Schedule:
    """What the schedule says besides the sizes of the calls that its kernel is for."""
    return tuple(pair for pair in schedule if pair[0] not in (GRID, SPLITS))


@dataclass(frozen=True)
class Merge:
    """A merge of parts, whose kernel serves any sizes and strides.

    head_dim: columns of the outputs.
    dtype: of the outputs, "f16", "bf16" or "f32".
    has_sinks: whether each head has a logit beside the parts.
    """

    head_dim: int
    dtype: str = "f16"
    has_sinks: bool = False

    def words(self) -> str:
        """What the cache calls it, such as "merge d64 f16 sink"."""
        return f"merge d{self.head_dim} {self.dtype}" + (" sink" if self.has_sinks else "")

    @staticmethod
    def parse(words: str) -> Merge:
        """Reads such words. Raises ValueError for others."""
        if not isinstance(words, str):
            raise ValueError(f"expects words to be a text, but got {words!r}")
        found = re.fullmatch(r"merge d([1-9]\d{0,3}) (f16|bf16|f32)( sink)?", words.strip())
        if not found:
            raise ValueError(
                "expects a merge such as 'merge d64 f16' or 'merge d128 bf16 sink', but got "
                f"{words!r}"
            )
        return Merge(int(found[1]), found[2], bool(found[3]))

    def module(self) -> str:
        """The function that is compiled."""
        types = {
            "outputs": f"memref<?x?x?x?x{self.head_dim}x{self.dtype}, strided<[?, ?, ?, ?, 1]>>",
            "lses": "memref<?x?x?x?xf32, strided<[?, ?, ?, ?]>>",
            "o": f"memref<?x?x?x{self.head_dim}x{self.dtype}, strided<[?, ?, ?, 1]>>",
            "lse": "memref<?x?x?xf32>",
        }
        sink = ""
        if self.has_sinks:
            types["sink"] = "memref<?xf32>"
            sink = f"sink(%sink : {types['sink']}) "
        parameters = ", ".join(f"%{name}: {kind}" for name, kind in types.items())
        return (
            f"func.func @merge({parameters}) {{\n"
            f"  flashcore.merge ins(%outputs, %lses : {types['outputs']}, {types['lses']}) {sink}"
            f"outs(%o : {types['o']}) lse(%lse : {types['lse']})\n"
            "  return\n}\n"
        )


def module_of(words: str) -> str:
    """The function of MLIR that words of a problem or of a merge mean.

    Raises ValueError for words that are none.
    """
    return Merge.parse(words).module() if words.startswith("merge") else _core.write_shape(words)


@dataclass(frozen=True)
class Problem:
    """An attention. A size of None is open: one kernel serves all of them.

    batch, heads_q, heads_kv, seqlen_q, seqlen_k: sizes.
    head_dim, head_dim_v: always known.
    dtype: type of q, k, v and o, "f16" or "bf16".
    causal: None, "bottom_right" or "top_left".
    window_left, window_right: keys; None is unbounded.
    softcap, scale: None is no cap, and 1 / sqrt(head_dim).
    dropout: the share of P that meets no V; None is none.
    bias: its axes, such as "1h1k" where batch and query are broadcast.
    bias_dtype: "f16", "bf16" or "f32".
    lse: whether the log-sum-exp is an output.
    scores: the stage of scores that are an output, such as "masked", or None.
    scores_dtype: as bias_dtype.
    append: rows that are appended to k and v, "?" for any number, or None.
    rotary: what turns them and q, such as "64:half" or "64:interleaved", or None.
    blocks: the size of a block of the lists and their axes, such as "128x128:b1", or
        None without lists.
    layout: "bhsd", "bshd", "packed", or "strided" for any strides.
    operands: words of further operands, such as "sink" or "seqused_k".
    sizes: of further axes, by name, "?" where they are open: ("page_size", 64) for keys in
        pages, ("sequences", "?") for sequences back to back.
    regions: words of a score and a mask region, and of the tensors that they read.
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
    dropout: Optional[float] = None
    scores: Optional[str] = None
    scores_dtype: Optional[str] = None
    append: Union[int, str, None] = None
    rotary: Optional[str] = None
    blocks: Optional[str] = None
    operands: Tuple[str, ...] = ()
    sizes: Tuple[Tuple[str, Union[int, str]], ...] = ()
    regions: Tuple[str, ...] = ()

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
            text.append(f"softcap={shortest_float32(self.softcap)}")
        if self.scale is not None:
            text.append(f"scale={shortest_float32(self.scale)}")
        if self.dropout is not None:
            text.append(f"dropout={shortest_float32(self.dropout)}")
        if self.bias:
            text.append(f"bias={self.bias}:{self.bias_dtype}")
        if self.blocks:
            text.append(f"blocks={self.blocks}")
        if self.lse:
            text.append("lse")
        if self.scores:
            text.append(f"scores={self.scores}:{self.scores_dtype}")
        if self.append is not None:
            text.append(f"append={self.append}")
        if self.rotary:
            text.append(f"rotary={self.rotary}")
        text += self.operands
        text += (f"{axis}={size}" for axis, size in self.sizes)
        return " ".join([*text, self.layout, *self.regions])

    @staticmethod
    def parse(words: str) -> Problem:
        """Reads such words.

        What is left out is as on the command line: 'b1 h8 s512 d64 f16 bhsd'.
        Raises ValueError for words that are none, or that contradict each other.
        """
        import json  # here, since calls without functions or clauses need none

        if not isinstance(words, str) or "\0" in words:
            raise ValueError(f"expects words to be a text without NUL, but got {words!r}")
        said: Dict[str, Any] = json.loads(_core.describe_shape(words))
        said["sizes"] = said["sizes"].items()
        for name in ("operands", "sizes", "regions"):
            said[name] = tuple(said[name])
        # Another name is no field, which is an error: no word is lost.
        return Problem(**said)

    def count_flops(self) -> float:
        """Floating-point operations of the two products, over the keys that are seen.

        By the convention of the field, half of all for a causal square. 0 where
        a size is open.
        """
        return _core.count_flops(self.words())

    def kernel_class(
        self,
        multiprocessors: int,
        sequences: Optional[int] = None,
        is_invariant: bool = False,
        has_few_queries: Optional[bool] = None,
        chip: Optional[str] = None,
    ) -> Tuple[Problem, Schedule]:
        """The problem whose kernel serves this one, and what to tell the schedule.

        Everything but head_dim is open, so that a new length or batch compiles nothing. The
        sizes of a call choose one of a few kernels, by their blocks a multiprocessor and by
        their keys (``expected-grid`` of the schedule, of the classes of ``chip``; by default of
        the newest chips). One query, and up to 16 over at least 1024 keys, have kernels of their
        own: for their number, and for their heads, which a model does not change. These split
        the keys over blocks: into one of a few numbers of parts (``key-splits``), or as many as
        the call wants; into one where the bits of a row must not depend on their number.
        ``sequences`` that lie back to back are as long as they are:
        two kernels of batch 1 serve them all, one where ``has_few_queries`` or, if that is
        None, where they have 16 queries or fewer each on average; by default those of
        ``sizes`` are, one where their number is open.
        """
        opened = dataclasses.replace(
            self,
            batch=None,
            heads_q=None,
            heads_kv=None,
            seqlen_q=None,
            seqlen_k=None,
            layout="strided",
            append=None if self.append is None else "?",
            sizes=tuple(self._open_sizes()),
        )
        if sequences is None:
            sequences = self._sequences()
        queries, keys = self.seqlen_q, self.seqlen_k
        if sequences is not None:
            if has_few_queries is None:
                has_few_queries = queries is not None and queries <= FEW_QUERIES * sequences
            return self._class_of_sequences(opened, has_few_queries and not is_invariant)
        chip = chip or _core.chips()[-1]
        has_many_queries = queries is None or queries > FEW_QUERIES
        if has_many_queries or (queries != 1 and keys is not None and keys < MANY_KEYS):
            return opened, () if is_invariant else self._grid(multiprocessors, chip)
        few = dataclasses.replace(
            opened, seqlen_q=queries, heads_q=self.heads_q, heads_kv=self.heads_kv
        )
        if queries == 1 and few.causal == "bottom_right":
            # The last query sees the last key: nothing is hidden.
            few = dataclasses.replace(few, causal=None)
        if is_invariant or self.blocks:  # of lists keys are not split
            return few, ()
        return few, self._splits(multiprocessors, chip)

    def _splits(self, multiprocessors: int, chip: str) -> Schedule:
        """What to tell the schedule of a call of few queries; nothing where the call says it."""
        sizes = (self.batch, self.heads_q, self.heads_kv, self.seqlen_q)
        if None in sizes:
            return ()
        batch, heads_q, heads_kv, queries = (size or 0 for size in sizes)
        seen = self._keys_in_window()
        keys = int(min(seen, LONG if self.seqlen_k is None else self.seqlen_k))
        splits = _core.call_splits(
            chip, batch, heads_q, heads_kv, queries, keys, multiprocessors
        )
        return ((SPLITS, str(splits)),) if splits else ()

    def _grid(self, multiprocessors: int, chip: str) -> Schedule:
        """What to tell the schedule of the sizes of a call; nothing where one is open."""
        sizes = (self.batch, self.heads_q, self.seqlen_q, self.seqlen_k)
        if self.blocks or None in sizes:  # lists say the shape of blocks
            return ()
        batch, heads, queries, keys = (size or 0 for size in sizes)
        found = _core.call_class(chip, batch * heads, queries, keys, multiprocessors)
        return () if found == LARGE else ((GRID, found),)

    def kernel_classes(
        self, multiprocessors: int, is_invariant: bool = False, chip: Optional[str] = None
    ) -> List[Tuple[Problem, Schedule]]:
        """What :meth:`kernel_class` returns for all calls that have these sizes.

        Where some are open, these have several kernels. One that is told nothing is always among
        them: it runs all calls whose own is not at hand.
        """
        chip = chip or _core.chips()[-1]
        served, schedule = self.kernel_class(multiprocessors, None, is_invariant, None, chip)
        if self.blocks or self._sequences() is not None or is_invariant:
            return [(served, schedule)]
        if served.seqlen_q is not None:
            known = [((SPLITS, str(splits)),) for splits in _core.known_splits(chip)]
            found = known if None in (self.batch, self.seqlen_k) else [schedule]
            return [(served, x) for x in dict.fromkeys([*found, ()])]
        if None not in (self.batch, self.heads_q, self.seqlen_q, self.seqlen_k):
            return [(served, found) for found in dict.fromkeys([schedule, ()])]
        grids = _core.call_classes(chip)
        return [(served, () if x == LARGE else ((GRID, x),)) for x in grids]

    def _open_sizes(self) -> "Iterator[Tuple[str, Union[int, str]]]":
        """The size of a page, which kernels know, and whether there are sequences."""
        for axis, size in self.sizes:
            if axis == "page_size":
                yield axis, size
            elif axis == "sequences":
                yield axis, "?"

    def _sequences(self) -> Optional[int]:
        """How many lie back to back; None where entries of a batch have their own rows."""
        size = dict(self.sizes).get("sequences")
        return size if size is None or isinstance(size, int) else 1

    def _class_of_sequences(
        self, opened: Problem, has_few_queries: bool
    ) -> Tuple[Problem, Schedule]:
        opened = dataclasses.replace(opened, batch=1)
        if not has_few_queries:
            return opened, ()
        few = dataclasses.replace(opened, heads_q=self.heads_q, heads_kv=self.heads_kv)
        return few, (("expected-queries", str(FEW_QUERIES)),)

    def _keys_in_window(self) -> float:
        """How many keys the queries see, whatever the length."""
        ends = self.seqlen_q == 1 or self.causal == "bottom_right" or self.window_right == 0
        if self.window_left is None or self.seqlen_q is None or not ends:
            return math.inf
        return self.window_left + self.seqlen_q


def abridge(words: str) -> str:
    """Words for one line of output: of regions, which are the last, the first line."""
    line, *rest = words.split("\n", 1)
    return f"{line}...}}" if rest else line


def _size(size: Optional[int]) -> str:
    return "?" if size is None else str(size)


def _bound(keys: Optional[int]) -> str:
    return "inf" if keys is None else str(keys)


def shortest_float32(value: float) -> str:
    """The shortest text of the float32 that kernels have it in."""
    rounded = struct.unpack("f", struct.pack("f", value))
    for digits in range(1, 9):
        shortest = float(f"{value:.{digits}g}")
        if struct.unpack("f", struct.pack("f", shortest)) == rounded:
            return repr(shortest)
    return repr(float(f"{value:.9g}"))
