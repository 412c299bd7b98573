"""Random attentions, of a seed and a number: types, sizes, layouts, masks, scores, a
chip, a schedule and a few runs of the kernel, legal or not. scripts/fuzz-configurations.py
compiles and runs them.
"""
import dataclasses
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import kernel_grids

HEAD_DIMS = range(1, 257)
EDGES = [1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257]
UNKNOWN_CHIPS = ("sm_60", "gfx90a", "sm_")
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
    bias: tuple | None = None  # type and axes, as in kernel_grids.py
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
    blocks: tuple | None = None  # of lists: queries, keys and axes, as in kernel_grids.py
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
        words = kernel_grids.attention(
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
            entry["tensors"] = kernel_grids.packed_layouts(batch, heads, seqlen, self.head_dim)
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
        return kernel_grids.packed_layouts(batch, heads_q, seqlen_q, configuration.head_dim)

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
        runs = self.runs(shape, sizes, layout, kernel_grids.row_step(head_dim, head_dim_v))
        if layout == "dynamic" and head_dim == head_dim_v and self.chance(30):
            runs = tuple(self.packed(run) for run in runs)
        drawn = Configuration(
            dtype, head_dim, head_dim_v, shape, layout, self.rng.choice(["none", "bottom_right", "top_left"]),
            self.window() if self.chance(25) else None, self.window() if self.chance(25) else None,
            self.positive(5, 60) if self.chance(20) else None, self.positive(0.01, 0.5) if self.chance(20) else None, bias,
            self.chance(80), options=self.options(), runs=runs, **self.emulator())
        # Sums of a product are for no LSE: but for a few that are refused.
        if not kernel_grids.may_have_lse(drawn.options) and not self.chance(7):
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
            drawn = dataclasses.replace(drawn, page=self.page_size(), bias=None, runs=runs,
                                        lengths="both" if drawn.lengths == "ends" else drawn.lengths)
        if drawn.lengths in ("none", "used"):
            return drawn
        # Sequences lie in a batch of one, without a bias.
        runs = tuple(dataclasses.replace(run, sizes=(1, *run.sizes[1:])) for run in drawn.runs)
        return dataclasses.replace(drawn, shape=(1, *drawn.shape[1:]), runs=runs, bias=None)

    def page_size(self):
        return self.rng.choice([2 ** self.rng.randint(0, 8), 16 * self.rng.randint(1, 34), self.rng.randint(1, 100)])

    def add_scores(self, drawn):
        """Probabilities are made of the log-sum-exp."""
        if drawn.page or drawn.lengths in ("ends", "both") or not self.chance(20):
            return drawn
        stage = self.rng.choice(kernel_grids.STAGES)
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
