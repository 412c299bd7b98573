"""The tensors of an attention as arguments, read from the compiler's table of operands.

No other module spells their names, but for signatures: what a group of them is for, the
table says.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

from flashcore import _core

__all__ = [
    "ANGLES", "CLAUSES", "ENDS", "LENGTHS", "LISTS", "NEW_ROWS", "PAGES", "SEED", "SINKS", "Clause",
    "of_use",
]  # fmt: skip


class Clause(NamedTuple):
    #: What the runtime calls the tensor.
    tensor: str
    word: str
    #: Of an array; empty for those of the type of q.
    dtype: str
    #: The sizes, as the runtime calls them.
    axes: Tuple[str, ...]
    #: What it is for, in the table's words.
    use: str

    @property
    def rank(self) -> int:
        return len(self.axes)


_TYPES = {"F32": "float32", "I32": "int32", "Half": ""}


def _read_clauses() -> Dict[str, Clause]:
    return {
        argument: Clause(
            tensor, word, _TYPES[elements], tuple(axes.replace("|1", "").split(", ")), use
        )
        for argument, tensor, word, elements, axes, role, use in _core.operands()
        if role == "Input" and word not in ("ins", "bias")
    }


#: What stands beside q, k, v and bias, by the names of arguments, in the order of the clauses.
CLAUSES: Dict[str, Clause] = _read_clauses()


def of_use(*uses: str) -> Tuple[str, ...]:
    """Those that are for something."""
    return tuple(name for name, clause in CLAUSES.items() if clause.use in uses)


def _of_word(word: str) -> Tuple[str, ...]:
    return tuple(name for name, clause in CLAUSES.items() if clause.word == word)


def _of_axes(*axes: str) -> Tuple[str, ...]:
    return tuple(name for name, clause in CLAUSES.items() if clause.axes == axes)


#: Rows that are laid out as those of k and v are, and what turns them. They are of the
#: type of q.
NEW_ROWS = _of_word("append")
ANGLES = _of_word("rotary")
#: Where sequences back to back end, of q and of k.
ENDS = _of_axes("cu_seqlens")
#: How many keys an entry of the batch, or a sequence, has.
(LENGTHS,) = _of_axes("entries")
#: Which pages of k and v are whose.
(PAGES,) = _of_axes("entries", "pages_per_sequence")
#: Seed and offset of a dropout.
(SEED,) = of_use("Dropout")
#: One more logit of each head.
(SINKS,) = of_use("Sink")
#: Lists of blocks, in the order of ``BlockLists``.
LISTS = of_use("Blocks")
