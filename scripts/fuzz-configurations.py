#!/usr/bin/env python3
"""Compiles and runs random attentions, and compares them with the reference.

A configuration is an attention (types, sizes, layouts, masks, scores), a chip, a
schedule and a few runs of the kernel. It is drawn from the seed and its number
alone, legal or not. What the compiler refuses must be refused with an error and
exit code 1 (2 for an option); what it takes must run on the device without a
finding and give the right results. Anything else (a signal, an internal error, no
end, a refused default) is reported with the command that repeats it, and the exit
code is 1.

A comparison that fails is repeated with other inputs, because the largest error
of a few rows is a matter of luck; it counts if it fails again.
"""
import argparse
import collections
import dataclasses
import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compiler_lists

# Seconds a command. Time of the processor decides, because the machine may be busy;
# the clock ends what sleeps. Wide kernels of threads take two minutes of the emulator.
CPU_LIMIT = 240
CLOCK_LIMIT = 1200
RETRIES = 3
HEAD_DIMS = range(1, 257)
EDGES = [1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257]
# What no message to a user contains.
INTERNAL = ("PLEASE submit", "LLVM ERROR", "Assertion", "UNREACHABLE", "Stack dump", "failed to legalize", "internal error",
            "does not dominate", "Intrinsic has incorrect", "terminate called", "runtime error:", "AddressSanitizer")
UNKNOWN_CHIPS = ("sm_60", "gfx90a", "sm_")
# What chips without tensor cores for a type say of lists that none of their blocks can walk (C17).
UNSUPPORTED = re.compile(r"has block lists of \d+ queries, but sm_\d+ has only products of threads")
# What the runner says where the chip that was drawn is newer than the card.
OTHER_CARD = "expects a device that runs"
# What is drawn of the fields of a schedule that are numbers: values that may be legal, values that are refused whatever the rest is.
NUMBERS = {
    "block_m": ([16, 32, 48, 64, 96, 128, 160, 256], [-16, 1, 17, 100, 1 << 20, (1 << 63) - 1]),
    "block_n": ([16, 32, 48, 64, 80, 112, 128, 256], [-16, 8, 33, 1 << 20, -(1 << 63)]),
    "num_warps": ([1, 2, 3, 4, 5, 8, 16], [-1, 33, 1 << 20, (1 << 63) - 1]),
    "num_stages": ([2, 3, 4, 5, 8], [-1, 1, 2000, (1 << 63) - 1]),
    "query_steps": ([0, 0, 0, 1, 2, 4, 7, 15], [-1, 16, 1 << 20, (1 << 63) - 1]),
    "grid_heads": ([0, 0, 0, 1, 3, 32], [-1, (1 << 20) + 1, (1 << 63) - 1]),
    "min_blocks": ([0, 1, 2, 4], [-1, 33, 1 << 40]),
    "head_group": ([1, 1, 2, 3, 4], [-1, 1 << 20, (1 << 63) - 1]),
    "key_splits": ([1, 1, 2, 3, 5, 17], [-1, 257, (1 << 63) - 1]),
    "key_warps": ([1, 2, 3, 4, 8], [-1, 1 << 20, (1 << 63) - 1]),
    "split_keys": ([0, 0, 1, 2, 5, 64], [-64, 65, (1 << 20) + 64, (1 << 63) - 1]),
    "expected_queries": ([0, 0, 1, 16, 40], [-1, 4097, (1 << 63) - 1]),
}
# Words that are drawn more often than the others of their field, which most of the rest goes with; and one that no field knows.
LIKELY = {"product": ["warp"], "invariance": ["none", "none"], "split_count": ["fixed"], "copies": ["async"], "exchange": ["none"]}
UNKNOWN_WORD = "other"


def schedule_values(fields):
    """Of each option of a schedule, what is drawn: values that may be legal, values that are refused. `fields` as the compiler lists them."""
    unknown = [name for name, words in fields.items() if not words and name not in NUMBERS]
    if unknown:
        raise ValueError(f"expects values of the numbers that the compiler lists in NUMBERS, but has none of {', '.join(unknown)}")
    return {name.replace("_", "-"): ([*LIKELY.get(name, []), *words], [UNKNOWN_WORD]) if words else NUMBERS[name] for name, words in fields.items()}


# Masks as regions: what shows key %j to query %i of batch entry %b.
COMPARISONS = {"past": ("sle, %j, %i", None), "near": ("sge, %j, %x", "arith.subi %i, %c"), "first": ("slt, %j, %c", None),
               "ahead": ("slt, %j, %x", "arith.addi %i, %c"), "length": ("slt, %j, %x", "arith.addi %d, %c"),
               "late": ("sge, %j, %x", "arith.subi %d, %c"), "block": ("eq, %y, %x", "arith.divsi %i, %c"), "rest": ("ne, %y, %x", "arith.remui %i, %c"),
               "since": ("sge, %j, %x", "arith.muli %e, %c"), "until": ("slt, %j, %x", "arith.muli %e, %c")}
# What those with %e read: a number of each query.
TABLE = 40
# What "shown" reads: bytes of as many keys as there may be, in rows of one less where its number is odd.
ROWS, KEYS = 3, 8192


def region_text(words):
    """The region that a field `region` stands for, as past/or.near.20/and.length.7."""
    lines = ["%n = arith.index_cast %b : index to i32", "%c61 = arith.constant 61 : i32", "%m = arith.muli %n, %c61 : i32",
             "%d = arith.index_cast %m : i32 to index"]
    if reads_table(words):
        lines += [f"%size = arith.constant {TABLE} : index", "%place = arith.remui %i, %size : index",
                  f"%entry = memref.load %numbers[%place] : memref<{TABLE}xi32>", "%e = arith.index_cast %entry : i32 to index"]
    joined = None
    for i, word in enumerate(words.split("/")):
        join, name, number = ("", *word.split(".")) if i == 0 else word.split(".")
        if name == "shown":
            lines += [f"%r_{i} = arith.constant {ROWS} : index", f"%y_{i} = arith.remui %i, %r_{i} : index", f"%z_{i} = arith.constant 0 : i8",
                      f"%x_{i} = memref.load %bytes[%y_{i}, %j] : {bytes_type(words)}"]
        compare, other = ("ne, %x, %z", None) if name == "shown" else COMPARISONS[name]
        lines.append(f"%c_{i} = arith.constant {number} : index")
        if "%y" in compare:
            lines.append(f"%y_{i} = {other} : index".replace("%i", "%j").replace("%c", f"%c_{i}"))
        if other:
            lines.append(f"%x_{i} = {other} : index".replace("%c", f"%c_{i}"))
        for value in "cxyz":
            compare = compare.replace(f"%{value}", f"%{value}_{i}")
        lines.append(f"%v_{i} = arith.cmpi {compare} : {'i8' if name == 'shown' else 'index'}")
        if joined:
            lines.append(f"%w_{i} = arith.{join}i {joined}, %v_{i} : i1")
        joined = f"%w_{i}" if joined else f"%v_{i}"
    body = "\n    ".join([*lines, f"flashcore.yield {joined} : i1"])
    return f"{{\n  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n    {body}\n  }}"


# Changes of a score %s of query %i and key %j of head %h, by a number %c: what each computes, %r in the end.
CHANGES = {"times": ("%r = arith.mulf %s, %c",), "plus": ("%r = arith.addf %c, %s",),
           "cap": ("%t = arith.divf %s, %c", "%u = math.tanh %t", "%r = arith.mulf %c, %u"),
           "fall": ("%t = math.absf %x", "%u = arith.mulf %t, %c", "%r = arith.subf %s, %u"),
           "rise": ("%t = arith.mulf %c, %y", "%u = arith.mulf %t, %x", "%r = arith.addf %u, %s"),
           "bell": ("%t = arith.mulf %x, %c", "%u = arith.mulf %t, %x", "%r = arith.subf %s, %u"),
           "table": ("%r = arith.addf %s, %z",)}


def change_text(words):
    """The score region that a field `change` stands for, as cap.20/fall.0.1."""
    lines = ["%d = arith.subi %i, %j : index", "%d32 = arith.index_cast %d : index to i32", "%x = arith.sitofp %d32 : i32 to f32",
             "%h32 = arith.index_cast %h : index to i32", "%y = arith.sitofp %h32 : i32 to f32", f"%size = arith.constant {TABLE} : index",
             "%place = arith.remui %j, %size : index", f"%z = memref.load %added[%place] : memref<{TABLE}xf32>"]
    if "table" not in words:
        lines = lines[:5]
    score = "%s"
    for i, word in enumerate(words.split("/")):
        name, _, number = word.partition(".")
        lines.append(f"%c_{i} = arith.constant {float(number):.9e} : f32")  # MLIR knows no 1e-05
        for line in CHANGES[name]:
            own = re.sub(r"%([crtu])\b", rf"%\1_{i}", line)
            lines.append(own.replace("%s", score) + " : f32")
        score = f"%r_{i}"
    body = "\n    ".join([*lines, f"flashcore.yield {score} : f32"])
    return f"{{\n  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n    {body}\n  }}"


def reads_table(words):
    return "since" in words or "until" in words


def bytes_type(words):
    """That of the tensor that "shown" reads."""
    number = int(words.partition("shown.")[2].partition("/")[0])
    return f"memref<{ROWS}x{KEYS - number % 2}xi8>"


def load_make_bundles():
    spec = importlib.util.spec_from_file_location("make_bundles", ROOT / "scripts/make-bundles.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_bundles = load_make_bundles()


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a kernel: its sizes (batch, heads_q, heads_kv, seqlen_q,
    seqlen_k), and what the type leaves open of the memory."""
    sizes: tuple
    layout: str = "bhsd"  # or bshd, or packed
    offset: int = 0
    kind: str = "normal"
    seed: int = 1

    def __str__(self):
        return "/".join([".".join(map(str, self.sizes)), self.layout, str(self.offset), self.kind, str(self.seed)])

    @staticmethod
    def parse(text):
        sizes, layout, offset, kind, seed = text.split("/")
        return Run(tuple(map(int, sizes.split("."))), layout, int(offset), kind, int(seed))


@dataclasses.dataclass(frozen=True)
class Configuration:
    dtype: str = "f16"
    head_dim: int = 64
    head_dim_v: int = 64
    shape: tuple = ("?", "?", "?", "?", "?")  # as in the type; sizes as in Run
    layout: str = "dense"  # of the type: dense, dynamic, bshd, packed or apart
    causal: str = "none"
    window_left: int | None = None
    window_right: int | None = None
    softcap: float | None = None
    scale: float | None = None
    bias: tuple | None = None  # type and axes, as in make-bundles.py
    lse: bool = True
    sinks: bool = False
    lengths: str = "none"  # or used (seqused_k), ends (cu_seqlens) or both
    page: int = 0  # keys of a page, or 0 for keys in one piece
    region: str = "none"  # of the mask, as region_text() takes it
    change: str = "none"  # of scores, as change_text() takes it
    scores: tuple | None = None  # an output: stage and type
    dropout: float | None = None
    append: bool = False  # of any number of rows, behind seqused_k keys
    rotary: tuple | None = None  # of these: columns and style
    blocks: tuple | None = None  # of lists: queries, keys and axes, as in make-bundles.py
    alibi: bool = False
    head_scale: bool = False
    gap: int = 0  # with layout apart: elements between rows, and in front of the first
    options: tuple = ()
    schedule: str = "seq"  # of the emulator, as are the next three
    copies: str = "lazy"
    threads: int = 1
    multiprocessors: int = 132
    runs: tuple = ()

    def spec(self):
        """Text that parse() takes: the fields that are not at their default."""
        words = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                words.append(f"{field.name}={format_value(field.name, value)}")
        return " ".join(words)

    @staticmethod
    def parse(text):
        fields = {field.name: field for field in dataclasses.fields(Configuration)}
        values = {}
        for word in text.split():
            name, _, value = word.partition("=")
            if name not in fields:
                raise ValueError(f"expects one of {', '.join(fields)}, but got '{name}'")
            try:
                values[name] = parse_value(name, value)
            except ValueError as error:
                raise ValueError(f"{name}={value}: {error}") from None
        return Configuration(**values)

    def words(self):
        """Of --shape."""
        layouts = None
        if self.layout in ("bshd", "packed", "apart"):
            layouts = fixed_layouts(self)
        shape = (*self.shape[:4], "?") if self.page else self.shape  # the table has as many as a run wants
        words = make_bundles.attention(
            self.dtype, self.head_dim, self.causal, shape, self.head_dim_v, self.layout == "dynamic",
            (self.window_left, self.window_right), self.softcap, self.bias, layouts, self.lse, self.scale, self.scores, self.dropout,
            "?" if self.append else None, self.rotary, self.page or None, self.blocks)
        flags = {"alibi": self.alibi, "head_scale": self.head_scale, "sink": self.sinks, "sequences=?": self.lengths in ("ends", "both"),
                 "seqused_k": self.lengths in ("used", "both"), f"%numbers=memref<{TABLE}xi32>": reads_table(self.region),
                 f"%added=memref<{TABLE}xf32>": "table" in self.change}
        words = " ".join([words, *(word for word, is_said in flags.items() if is_said)])
        if "shown" in self.region:
            words += f" %bytes={bytes_type(self.region)}"
        words += "" if self.change == "none" else f" score={change_text(self.change)}"
        return words if self.region == "none" else f"{words} mask={region_text(self.region)}"

    def must_compile(self):
        """Whether the documentation promises a kernel: the attention is one
        that it allows, and the schedule is the compiler's choice."""
        legal = self.head_dim in HEAD_DIMS and self.head_dim_v in HEAD_DIMS
        legal &= all(window is None or window >= 0 for window in (self.window_left, self.window_right))
        legal &= all(value is None or 1e-30 < value < 1e30 for value in (self.scale, self.softcap))
        legal &= self.blocks is None or all(size % 16 == 0 and 0 < size <= 65536 for size in self.blocks[:2])
        legal &= self.dropout is None or 2 ** -17 <= self.dropout < 1 - 2 ** -17
        heads = self.shape[1:3]
        legal &= "?" in heads or heads[0] % heads[1] == 0
        return legal and all(option.startswith("--chip=") and option[7:] not in UNKNOWN_CHIPS for option in self.options)

    def entry(self, run, bundle):
        """What flashcore-run --grid reads."""
        names = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
        open_dims = {name: size for name, size, known in zip(names, run.sizes, self.shape) if known == "?"}
        entry = {"bundle": bundle, "seed": run.seed, "kind": run.kind, "dims": open_dims}
        if self.lengths in ("ends", "both"):
            open_dims["cu_seqlens"] = 1 + run.seed % 7
        if self.page:
            open_dims.pop("seqlen_k", None)
            open_dims["pages_per_sequence"] = max(1, -(-run.sizes[4] // self.page))
        if self.append:  # there is room for them
            room = run.sizes[4] if not self.page else open_dims["pages_per_sequence"] * self.page
            open_dims["seqlen_new"] = min(run.seed % 50, room)
        if self.layout == "dynamic" and run.layout == "packed":
            batch, heads, _, seqlen, _ = run.sizes
            entry["tensors"] = make_bundles.packed_layouts(batch, heads, seqlen, self.head_dim)
        elif self.layout == "dynamic":
            entry |= {"layout": run.layout, "offset": run.offset}
        return entry


def format_value(name, value):
    if name == "shape":
        return ".".join(map(str, value))
    if name in ("bias", "scores", "rotary", "blocks"):
        return ":".join(map(str, value))
    if name == "options":
        return ",".join(value)
    if name == "runs":
        return ",".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


def parse_value(name, text):
    if name == "shape":
        return tuple(size if size == "?" else int(size) for size in text.split("."))
    if name in ("bias", "scores", "rotary"):
        return tuple(text.split(":"))
    if name == "blocks":
        queries, keys, axes = text.split(":")
        return int(queries), int(keys), axes
    if name == "options":
        return tuple(text.split(","))
    if name == "runs":
        return tuple(Run.parse(run) for run in text.split(","))
    if name in ("dtype", "layout", "causal", "schedule", "copies", "lengths", "region", "change"):
        return text
    if name in ("lse", "sinks", "append", "alibi", "head_scale"):
        if text not in ("True", "False"):
            raise ValueError("expects True or False")
        return text == "True"
    return float(text) if name in ("softcap", "scale", "dropout") else int(text)


def fixed_layouts(configuration):
    """Static strides and offsets of q, k, v and o."""
    batch, heads_q, heads_kv, seqlen_q, seqlen_k = configuration.shape
    if configuration.layout == "packed":
        return make_bundles.packed_layouts(batch, heads_q, seqlen_q, configuration.head_dim)

    def layout(seqlen, heads, dim):
        if configuration.layout == "apart":
            row = dim + configuration.gap
            return {"strides": [seqlen * heads * row, seqlen * row, row, 1], "offset": configuration.gap}
        return {"strides": [seqlen * heads * dim, dim, heads * dim, 1], "offset": 0}

    return {name: layout(seqlen, heads, dim)
            for name, seqlen, heads, dim in (("q", seqlen_q, heads_q, configuration.head_dim),
                                             ("k", seqlen_k, heads_kv, configuration.head_dim),
                                             ("v", seqlen_k, heads_kv, configuration.head_dim_v),
                                             ("o", seqlen_q, heads_q, configuration.head_dim_v))}


class Generator:
    """Configuration number `index` of a seed, whatever was drawn before it, for one of the chips, with some of the options of `schedule`."""

    def __init__(self, seed, index, chips, schedule):
        self.chips = chips
        self.schedule = schedule
        self.rng = random.Random(f"{seed}/{index}")

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def length(self):
        return self.rng.choice(EDGES) if self.chance(30) else self.rng.randint(1, 300)

    def sizes(self):
        """Sizes of a run; as many scores as a second of the emulator allows."""
        heads_kv = self.rng.choice([1, 1, 2, 3])
        heads_q = heads_kv * self.rng.choice([1, 1, 2, 4])
        seqlen_q, seqlen_k = self.length(), self.length()
        if self.chance(15):
            seqlen_k = self.rng.randint(1, seqlen_q)
        if self.chance(5):
            seqlen_q = 1
        if self.chance(5):
            seqlen_q, seqlen_k = self.rng.randint(1, 40), self.rng.randint(1000, 2500)
        batch = 1 if heads_q * seqlen_q * seqlen_k > 100000 else self.rng.choice([1, 1, 2, 3])
        return batch, heads_q, heads_kv, seqlen_q, seqlen_k

    def window(self):
        if self.chance(2):
            return -self.rng.randint(1, 100)
        return self.rng.choice([0, 1, 17, 64, self.rng.randint(0, 300), 1 << 40])

    def head_dim(self):
        if self.chance(2):
            return self.rng.choice([264, 512, 4096])
        if self.chance(30):
            return self.rng.choice([64, 128])
        return self.rng.choice(HEAD_DIMS[7::8] if self.chance(50) else HEAD_DIMS)

    def positive(self, low, high):
        if self.chance(3):
            return self.rng.choice([0.0, -1.0, 1e-42, 3e38])
        return float(f"{self.rng.uniform(low, high):.3g}")

    def options(self):
        options = [f"--chip={self.rng.choice(self.chips)}"] if self.chance(60) else []
        if self.chance(1):
            options = [f"--chip={self.rng.choice(UNKNOWN_CHIPS)}"]
        if self.chance(25):
            options.append(f"--few-queries={self.rng.choice([1, 4, 16, 16, 16, 64, -1])}")
        if self.chance(40):
            return tuple(options)
        if self.chance(40):
            return tuple(options + self.likely_schedule())
        for name, (legal, illegal) in self.schedule.items():
            if self.chance(30):
                options.append(f"--{name}={self.rng.choice(illegal if self.chance(7) else legal)}")
        return tuple(options)

    def likely_schedule(self):
        """A whole schedule that most heads have room for."""
        heads = self.rng.choice([1, 1, 1, 2, 4])
        warps = self.rng.choice([1, 2, 3, 4, 8] if heads == 1 else [1, 2])
        values = {name: self.rng.choice(legal) for name, (legal, _) in self.schedule.items()}
        is_unfused = values["softmax"] == "unfused"
        if is_unfused:
            heads = 1
            values |= {"overlap": "none", "row-max": "exact", "row-sum": "add", "key-splits": 1, "grid": "full", "invariance": "none"}
            if values["query"] == "split":
                values |= {"query": "shared", "query-steps": 0}
        # Heads and keys are not divided among warps at the same time.
        parts = [1] + [n for n in self.schedule["key-warps"][0] if warps % n == 0]
        key_warps = self.rng.choice(parts) if heads == 1 and not is_unfused else 1
        if key_warps > 1 or values["softmax"] == "one_pass":
            values["key-splits"] = 1
        if values["key-splits"] == 1:
            values["split-count"] = "fixed"
        if values["softmax"] == "one_pass":
            values |= {"overlap": "none", "row-max": "exact"}
        if values["row-max"] == "folded":
            values |= {"overlap": "none", "row-sum": "mma"}
        values |= {"head-group": heads, "num-warps": heads * warps, "key-warps": key_warps,
                   "block-m": 16 * warps // key_warps * self.rng.choice([1, 1, 2]),
                   "block-n": self.rng.choice([16, 32, 48, 64]), "num-stages": self.rng.choice([2, 2, 3, 4])}
        if self.chance(5):
            return self.likely_warpgroups()
        # What mma.sync takes tiles for it reads from rows with a swizzle, and its warps copy for each other.
        values |= {"product": "warp", "output": "direct", "exchange": "none"}
        if values["copies"] == "producer":
            values["copies"] = "async"
        if values["invariance"] == "batch":
            values |= {"row-max": "exact", "row-sum": "add", "softmax": "online", "key-splits": 1,
                       "split-count": "fixed"}
            values |= {"key-warps": 1, "block-m": 16 * warps * self.rng.choice([1, 2])}
            values["split-keys"] *= values["block-n"]
            if values["split-keys"]:
                values |= {"grid": "full", "grid-heads": 0}
        else:
            values["split-keys"] = 0
        if values["overlap"] == "pv":
            values["overlap"] = "none"
        if values["row-max"] == "checked":
            values["row-max"] = "stale"
        if self.chance(15):
            values |= self.likely_plain(values, warps * heads)
        return [f"--{name}={value}" for name, value in values.items()]

    def likely_plain(self, values, warps):
        """What kernels of plain rows can be asked for, in the place of these values; tiles of threads are often too large."""
        product = self.rng.choice(["wmma", "thread"])
        row_max = values["row-max"] if values["row-max"] in ("exact", "stale") else "exact"
        plain = {"product": product, "query": "shared", "query-steps": 0, "overlap": "none", "row-max": row_max, "row-sum": "add", "key-warps": 1,
                 "softmax": "online" if values["softmax"] == "one_pass" or product == "thread" else values["softmax"],
                 "block-m": (16 if product == "wmma" else 32) * (warps // values["head-group"]), "block-n": self.rng.choice([16, 32]),
                 "exchange": self.rng.choice(["plain", "padded"] if product == "thread" else ["plain", "padded", "wide", "fragments"]),
                 "copies": self.rng.choice(["async", "registers", "producer"])}
        if values["split-keys"]:
            plain["split-keys"] = 4 * plain["block-n"]
        return plain | ({"copies": "registers"} if plain["softmax"] == "unfused" else {})

    def likely_warpgroups(self):
        """What kernels of warpgroups can be asked for; the head and the lengths often do not fit."""
        warpgroups = self.rng.choice([1, 2, 3, 4])
        values = {"chip": "sm_90a", "product": "warpgroup", "num-warps": 4 * warpgroups, "block-m": 64 * warpgroups,
                  "block-n": self.rng.choice([16, 64, 96, 128]), "num-stages": self.rng.choice([2, 2, 3]),
                  "overlap": self.rng.choice(["none", "pv"]), "row-max": self.rng.choice(["exact", "stale", "checked"]),
                  "output": self.rng.choice(["direct", "bulk"])}
        if self.chance(20):
            values |= {"invariance": "batch", "row-max": "exact", "row-sum": "add"}
        return [f"--{name}={value}" for name, value in values.items()]

    def emulator(self):
        seed = self.rng.randrange(1000)
        return {"schedule": self.rng.choice(["seq", "skew", f"random:{seed}"]),
                "copies": self.rng.choice(["lazy", "eager", f"random:{seed}"]),
                "threads": 2 if self.chance(10) else 1,
                "multiprocessors": self.rng.choice([1, 2, 3, 132])}

    def shape(self, sizes, layout):
        """The sizes that the type tells: all, none, or any of them."""
        if layout in ("bshd", "packed", "apart") or self.chance(35):
            return sizes
        if self.chance(45):
            return ("?",) * 5
        return tuple("?" if self.chance(50) else size for size in sizes)

    def runs(self, shape, first, layout, step):
        runs = [first]
        for _ in range(self.rng.randint(1, 4) if "?" in shape else 0):
            sizes = list(self.sizes())
            # Heads must stay divisible, so they change together or not at all.
            if shape[1] != "?" or shape[2] != "?":
                sizes[1:3] = first[1:3]
            if self.chance(4):
                sizes[self.rng.choice([0, 3, 4])] = 0
            runs.append(tuple(size if known == "?" else known for size, known in zip(sizes, shape)))
        return tuple(self.run(sizes, layout, step) for sizes in runs)

    def run(self, sizes, layout, step):
        """Offsets are multiples of what rows of these head dims move by."""
        where = self.rng.choice(["bhsd", "bshd"]) if layout == "dynamic" else "bhsd"
        offset = step * self.rng.randrange(4) if layout == "dynamic" else 0
        kind = self.rng.choice(["normal", "rising", "falling", "shifted", "spiked"])
        return Run(sizes, where, offset, kind, self.rng.randrange(1 << 20))

    def draw(self):
        layout = self.rng.choice(["dense", "dynamic", "dynamic", "bshd", "packed", "apart"])
        head_dim = self.head_dim()
        head_dim_v = self.head_dim() if self.chance(25) and layout != "packed" else head_dim
        sizes = self.sizes()
        if layout == "packed":
            sizes = (sizes[0], sizes[1], sizes[1], sizes[3], sizes[3])
        shape = self.shape(sizes, layout)
        bias = None
        if self.chance(35):
            axes = "".join(axis if self.chance(60) else "1" for axis in "bhqk")
            bias = (None, axes)
        dtype = self.rng.choice(["f16", "bf16"])
        if bias:
            bias = (self.rng.choice([dtype, "f32"]), bias[1])
        runs = self.runs(shape, sizes, layout, make_bundles.row_step(head_dim, head_dim_v))
        if layout == "dynamic" and head_dim == head_dim_v and self.chance(30):
            runs = tuple(self.packed(run) for run in runs)
        drawn = Configuration(
            dtype, head_dim, head_dim_v, shape, layout, self.rng.choice(["none", "bottom_right", "top_left"]),
            self.window() if self.chance(25) else None, self.window() if self.chance(25) else None,
            self.positive(5, 60) if self.chance(20) else None, self.positive(0.01, 0.5) if self.chance(20) else None, bias,
            self.chance(80), options=self.options(), runs=runs, **self.emulator())
        # Sums of a product are for no LSE: but for a few that are refused.
        if not make_bundles.may_have_lse(drawn.options) and not self.chance(7):
            drawn = dataclasses.replace(drawn, lse=False)
        if layout == "apart":
            drawn = dataclasses.replace(drawn, gap=self.rng.randint(1, 12))
        # A seed still draws what it did of those that were there before the last.
        for add in (self.add_data, self.add_scores, self.add_blocks, self.add_append, self.add_bytes, self.add_change, self.add_far,
                    self.add_alibi, self.add_head_scale):
            drawn = add(drawn)
        return drawn

    def add_head_scale(self, drawn):
        return dataclasses.replace(drawn, head_scale=self.chance(10))

    def add_alibi(self, drawn):
        """Slopes are no whole steps of large scores. Steep ones end at the largest f32 times the scale,
        which shows in scores and in the LSE of rows that see nothing nearer, and factors of a change would turn."""
        if any(run.kind == "large" for run in drawn.runs) or not self.chance(10):
            return drawn
        kinds = ["masked"] if not (drawn.scores or drawn.lse) and drawn.change == "none" and self.chance(30) else []
        runs = tuple(dataclasses.replace(run, kind=self.rng.choice([run.kind, *kinds])) for run in drawn.runs)
        return dataclasses.replace(drawn, alibi=True, runs=runs)

    def add_far(self, drawn):
        """Kinds of inputs far from normal ones, of some runs, where there is what they change; the last that came."""
        # With steps of 0.5, what a change of scores rounds depends on the order of its sums.
        kinds = ["large"] if not drawn.rotary and drawn.change == "none" else []
        kinds += ["masked", "masked", "infinite"] if drawn.bias else []
        kinds += ["sinks", "sinks"] if drawn.sinks else []
        if not kinds or not self.chance(40):
            return drawn
        return dataclasses.replace(drawn, runs=tuple(dataclasses.replace(run, kind=self.rng.choice([run.kind, *kinds])) for run in drawn.runs))

    def add_append(self, drawn):
        """The last that came. k and v are parts of no tensor that q is a part of, and lengths are those of batch entries."""
        if drawn.lengths in ("ends", "both") or drawn.layout == "packed" or not self.chance(15):
            return drawn
        runs = tuple(dataclasses.replace(run, layout="bhsd") if run.layout == "packed" else run for run in drawn.runs)
        drawn = dataclasses.replace(drawn, append=True, lengths="used", runs=runs)
        if drawn.head_dim < 2 or self.chance(40):
            return drawn
        columns = 2 * self.rng.randint(1, drawn.head_dim // 2)
        return dataclasses.replace(drawn, rotary=(str(columns), self.rng.choice(["half", "interleaved"])))

    def add_data(self, drawn):
        """Sinks, lengths, a mask region and a dropout, which came after the rest: a seed still draws what it did of that."""
        drawn = self.add_lengths(drawn)
        if not self.chance(12):
            return drawn
        shares = [0.0, 1.0, 1e-6] if self.chance(3) else [0.1, 0.5, 0.999, 2 ** -16, self.rng.uniform(0.01, 0.99)]
        return dataclasses.replace(drawn, dropout=float(f"{self.rng.choice(shares):.6g}"))

    def add_lengths(self, drawn):
        drawn = dataclasses.replace(drawn, sinks=self.chance(15), lengths=self.rng.choice(["used", "ends", "both"]) if self.chance(25) else "none",
                                    region=self.region() if self.chance(25) else "none")
        if self.chance(20) and drawn.layout in ("dense", "dynamic"):
            runs = tuple(dataclasses.replace(run, layout="bhsd") for run in drawn.runs)
            drawn = dataclasses.replace(drawn, page=2 ** self.rng.randint(0, 8), bias=None, runs=runs,
                                        lengths="both" if drawn.lengths == "ends" else drawn.lengths)
        if drawn.lengths in ("none", "used"):
            return drawn
        # Sequences lie in a batch of one, without a bias.
        runs = tuple(dataclasses.replace(run, sizes=(1, *run.sizes[1:])) for run in drawn.runs)
        return dataclasses.replace(drawn, shape=(1, *drawn.shape[1:]), runs=runs, bias=None)

    def add_scores(self, drawn):
        """Probabilities are made of the log-sum-exp."""
        if drawn.page or drawn.lengths in ("ends", "both") or not self.chance(20):
            return drawn
        stage = self.rng.choice(make_bundles.STAGES)
        # Their rows move by other numbers than those of the head dims.
        runs = tuple(dataclasses.replace(run, offset=8 * run.offset) for run in drawn.runs)
        return dataclasses.replace(drawn, runs=runs, scores=(stage, self.rng.choice(["f16", "bf16", "f32"])), lse=drawn.lse or stage == "probabilities")

    def add_blocks(self, drawn):
        """The last that came."""
        if drawn.page or drawn.scores or drawn.lengths in ("ends", "both") or not self.chance(15):
            return drawn
        sizes = [self.rng.choice([16, 48, 64, 64, 128, 128, 128, 256, 4096]) for _ in range(2)]
        if self.chance(2):
            sizes[self.rng.randrange(2)] = self.rng.choice([0, -16, 100, 1 << 20])
        return dataclasses.replace(drawn, blocks=(*sizes, self.rng.choice("b1") + self.rng.choice("h1")))

    def add_bytes(self, drawn):
        """A part of the region that reads bytes by keys, the last that came."""
        if drawn.region == "none" or not self.chance(30):
            return drawn
        return dataclasses.replace(drawn, region=f"{drawn.region}/{self.rng.choice(['and', 'or'])}.shown.{self.rng.randint(0, 1)}")

    def add_change(self, drawn):
        """The last that came. Numbers are such that errors stay those of an attention."""
        if not self.chance(25):
            return drawn
        numbers = {"times": lambda: self.rng.choice([-1.5, -0.25, 0.0, 0.5, 2.0]), "plus": lambda: self.rng.uniform(-2, 2), "cap": lambda: self.rng.uniform(5, 50),
                   "fall": lambda: self.rng.uniform(0, 0.05), "rise": lambda: self.rng.uniform(-0.01, 0.01), "bell": lambda: self.rng.uniform(0, 2e-5),
                   "table": lambda: 0.0}
        if drawn.bias:  # of -inf, some of it: a factor that is not positive makes other infinities of that
            numbers["times"] = lambda: self.rng.choice([0.5, 2.0])
        names = [self.rng.choice(list(CHANGES)) for _ in range(self.rng.randint(1, 3))]
        return dataclasses.replace(drawn, change="/".join(f"{name}.{float(f'{numbers[name]():.4g}')!r}" for name in names))

    def region(self):
        words = [f"{self.rng.choice(list(COMPARISONS))}.{self.rng.randint(1, 150)}" for _ in range(self.rng.randint(1, 3))]
        return "/".join([words[0], *(f"{self.rng.choice(['and', 'or', 'or'])}.{word}" for word in words[1:])])

    def packed(self, run):
        _, heads_q, heads_kv, seqlen_q, seqlen_k = run.sizes
        return dataclasses.replace(run, layout="packed") if heads_q == heads_kv and seqlen_q == seqlen_k else run


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))


class Problem(Exception):
    """What is wrong with a configuration; `kind` groups its counts."""

    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


class Fuzzer:
    def __init__(self, compiler, runner, device, folder):
        self.compiler, self.runner, self.device, self.folder = compiler, runner, device, pathlib.Path(folder)
        self.counts = collections.Counter()

    def execute(self, command, **options):
        try:
            result = subprocess.run(command, text=True, errors="replace", capture_output=True, timeout=CLOCK_LIMIT,
                                    preexec_fn=limit_cpu, **options)
        except subprocess.TimeoutExpired:
            raise Problem("hang", f"{command[0]} takes more than {CLOCK_LIMIT} s") from None
        if result.returncode == -signal.SIGXCPU:
            raise Problem("hang", f"{command[0]} takes more than {CPU_LIMIT} s of the processor")
        text = result.stdout + result.stderr
        internal = next((word for word in INTERNAL if word in text), None)
        if result.returncode not in (0, 1, 2):
            raise Problem("crash", f"{command[0]} ends with {result.returncode}\n{text[-2000:]}")
        if internal:
            raise Problem("internal error", f"{command[0]} says '{internal}'\n{text[-2000:]}")
        return result

    def compile(self, configuration):
        """The bundle, or nothing where it is refused."""
        bundle = self.folder / "kernel.fcb"
        command = [self.compiler, f"--shape={configuration.words()}", "--emit=bundle", "--no-cubin", "-o", str(bundle), *configuration.options]
        result = self.execute(command, stdin=subprocess.DEVNULL)
        if result.returncode == 0:
            return bundle
        if "error:" not in result.stderr:
            raise Problem("refusal", f"expects an error beside exit code {result.returncode}, but got\n{result.stderr}")
        is_unsupported = configuration.blocks and configuration.blocks[0] % 32 and UNSUPPORTED.search(result.stderr)
        if configuration.must_compile() and not is_unsupported:
            raise Problem("refusal", f"expects a kernel, but got\n{result.stderr}")
        return None

    def run(self, configuration, runs, bundle):
        """Results of the runs as flashcore-run writes them."""
        grid, out = self.folder / "grid.json", self.folder / "out.json"
        grid.write_text(json.dumps([configuration.entry(run, bundle.name) for run in runs]))
        out.unlink(missing_ok=True)
        command = [self.runner, f"--device={self.device}", "--grid", str(grid), "--json", str(out)]
        if self.device == "emulator":
            command += [f"--emu-schedule={configuration.schedule}", f"--emu-async={configuration.copies}",
                        f"--emu-threads={configuration.threads}",
                        f"--emu-multiprocessors={configuration.multiprocessors}"]
        result = self.execute(command)
        results = json.loads(out.read_text()) if out.exists() else []
        if len(results) != len(runs):
            raise Problem("run", f"expects {len(runs)} results, but got {len(results)}\n{result.stdout}{result.stderr}")
        return results

    def is_bad_luck(self, configuration, run, bundle):
        """Whether a failed comparison passes with all other inputs."""
        others = [dataclasses.replace(run, seed=run.seed + i + 1) for i in range(RETRIES)]
        return all(result["result"] == "PASS" for result in self.run(configuration, others, bundle))

    def check(self, configuration):
        """Compiles and runs it; raises a Problem where something is wrong."""
        bundle = self.compile(configuration)
        self.counts["refused" if bundle is None else "compiled"] += 1
        if bundle is None or not configuration.runs:
            return
        for run, result in zip(configuration.runs, self.run(configuration, configuration.runs, bundle)):
            self.counts["runs"] += 1
            if result["result"] == "PASS":
                continue
            if self.device == "cuda" and OTHER_CARD in result.get("error", ""):
                self.counts["for other cards"] += 1
                continue
            if "error" in result:
                raise Problem("finding" if result["result"] == "FAIL" else "run", f"{run}: {result['error']}")
            if self.is_bad_luck(configuration, run, bundle):
                self.counts["failed once, then passed"] += 1
                continue
            errors = {name: result[name] for name in ("o", "lse", "scores") if name in result}
            raise Problem("comparison", f"{run}: {json.dumps(errors)}")

    def report(self, configuration):
        """Whether the configuration is fine; else says what is not."""
        self.counts["configurations"] += 1
        try:
            self.check(configuration)
            return True
        except Problem as problem:
            self.counts[problem.kind] += 1
            print(f"{problem.kind.upper()}: {problem}\n  scripts/fuzz-configurations.py --device {self.device} "
                  f"--one {shlex.quote(configuration.spec())}", flush=True)
            return False


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    binaries = ROOT / "build/release/bin"
    parser.add_argument("--compiler", default=binaries / "flashcore-compile", type=os.fspath)
    parser.add_argument("--runner", default=binaries / "flashcore-run", type=os.fspath)
    parser.add_argument("--device", choices=["emulator", "cuda"], default="emulator")
    parser.add_argument("--seed", type=int, default=None, help="of what is drawn (default: the time)")
    parser.add_argument("--one", metavar="SPEC", help="only this configuration, as a report names it")
    parser.add_argument("--print", action="store_true", help="print the specs that --count draws and stop")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, default=1)
    limit.add_argument("--count", type=int, help="draw so many configurations, however long it takes")
    return parser.parse_args()


def configurations(args, seed):
    if args.one:
        yield Configuration.parse(args.one)
        return
    end = time.monotonic() + 60 * args.minutes
    index = 0
    chips = compiler_lists.list_chips(args.compiler)
    schedule = schedule_values(compiler_lists.list_schedule_fields(args.compiler))
    while index < args.count if args.count is not None else time.monotonic() < end:
        yield Generator(seed, index, chips, schedule).draw()
        index += 1


def main():
    args = parse_arguments()
    seed = args.seed if args.seed is not None else int(time.time())
    if args.print:
        for configuration in configurations(args, seed):
            print(configuration.spec())
        return 0
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(str(args.compiler), str(args.runner), args.device, folder)
        try:
            for configuration in configurations(args, seed):
                passed &= fuzzer.report(configuration)
        except (ValueError, OSError) as error:
            print(f"fuzz-configurations: {error}", file=sys.stderr)
            return 2
    print(f"seed {seed}: " + ", ".join(f"{count} {name}" for name, count in fuzzer.counts.items()))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
