"""The kernels that are compiled and run to check and to time the compiler, as grids.

A grid is a function of Bundles that makes bundles, one a kernel, and gives a list of
runs for `flashcore-run --grid`; GRIDS has them by name. scripts/make-bundles.py writes
them.
"""
import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]
import call_class_grid
import compiler_lists
import far_grid
from flashcore_benchmarks.masks import MASKS, with_mask
from flashcore_benchmarks.mlir import attention, may_have_lse, packed_layouts, source_arguments

DTYPES = ["f16", "bf16"]
KINDS = ["normal", "rising", "shifted"]
CAUSAL = ["none", "bottom_right", "top_left"]
SEQLENS = [1, 3, 64, 113, 203, 512, 1023, 1024]
HEAD_DIMS = [16, 64, 80, 128]
# With a last step of 8 columns, and wider than 128.
ODD_HEAD_DIMS = [32, 40, 72, 96, 160, 192, 224, 256]
# head_dim and head_dim_v of rows that move 2, 4, 8 or 16 bytes at a time, and are no whole chunks or a single one.
NARROW_HEAD_DIMS = [(1, 1), (5, 33), (7, 7), (8, 8), (12, 20), (20, 100), (33, 12), (100, 8), (250, 250), (64, 7), (36, 64)]
# The pairs of FlashAttention's own tests.
FLASH_ATTENTION_SEQLENS = [(113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024),
                           (1024, 1023), (1, 239), (3, 799), (127, 512)]
# (left, right) as seen from a query's own key; None is unbounded.
WINDOWS = [(0, 0), (3, 0), (None, 5), (64, 0), (17, 33)]
# The kernel's type and the bias: its type and its axes (batch, heads_q, seqlen_q,
# seqlen_k), where 1 is broadcast.
BIASES = [("f16", ("f16", "bhqk")), ("bf16", ("bf16", "bhqk")), ("f16", ("f32", "11qk")), ("bf16", ("f32", "1h1k")),
          ("f16", ("f16", "b1q1")), ("bf16", ("bf16", "b11k")), ("f16", ("f32", "1hq1")), ("bf16", ("f32", "1111"))]


# Of each class of calls, and of none: few blocks, one key, a border of queries and keys, many short sequences.
CALLS = [(1, 8, 2, 512, 512), (1, 2, 1, 1, 1), (2, 12, 12, 448, 1500), (2, 4, 2, 65, 1025), (64, 16, 16, 90, 128), (1, 2, 2, 33, 0)]

# Of scores that are an output.
STAGES = ["scaled", "capped", "changed", "masked", "probabilities"]


class Bundles:
    """Kernels that grids name, and those of them that are compiled."""

    def __init__(self, out, compiler, extra=()):
        self.out, self.compiler, self.extra = out, compiler, list(extra)
        self.asked = {}  # name of a bundle -> its words or module, and options
        self.made = set()

    def make(self, name, source, options=()):
        """The name of a bundle of words of --shape, or of a module, which `compile` makes. The first of a name counts."""
        bundle = f"{name}.fcb"
        self.asked.setdefault(bundle, (source, list(options)))
        return bundle

    def compile(self, runs):
        """Makes the bundles of these runs that are not made yet, on all cores."""
        wanted = [bundle for bundle in dict.fromkeys(run["bundle"] for run in runs) if bundle not in self.made]
        self.made |= set(wanted)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for bundle, said in zip(wanted, pool.map(self._compile, wanted)):
                print(f"{bundle.removesuffix('.fcb'):44s} {said}", flush=True)

    def _compile(self, bundle):
        source, options = self.asked[bundle]
        named, text = source_arguments(source)
        command = [str(self.compiler), *named, "--emit=bundle", "-o", str(self.out / bundle), "-v", *self.extra, *options]
        result = subprocess.run(command, input=text, text=True, capture_output=True)
        if result.returncode:
            raise CompileError(f"{bundle}: {' '.join(command)}\n{result.stderr}")
        return result.stderr.strip()


class CompileError(RuntimeError):
    pass


def dims(b, hq, hkv, sq, sk):
    return {"batch": b, "heads_q": hq, "heads_kv": hkv, "seqlen_q": sq, "seqlen_k": sk}


def stage_runs(bundle):
    """The four stage checks of one kernel of head_dim_v 64 or more."""
    return [{"bundle": bundle, "stage": stage, "dims": dims(1, 2, 2, 100, 16 if stage == "tile" else 64)}
            for stage in ("qk", "softmax", "pv", "tile")]


def alternate(bundle, i, sizes):
    """One run, with layout, offset and kind of inputs in turn."""
    return {"bundle": bundle, "dims": dims(*sizes), "layout": ["bhsd", "bshd"][i % 2], "offset": 8 * (i % 3),
            "kind": KINDS[i // 2 % 3]}


def score_kernels(bundles):
    """A kernel for each way to hide keys or to change scores, and some for
    several ways at once."""
    for causal, (left, right) in itertools.product(CAUSAL, WINDOWS):
        yield bundles.make(f"window-{left}-{right}-{causal}", attention("f16", 64, causal, window=(left, right)))
    yield bundles.make("softcap-30", attention("f16", 64, softcap=30))
    yield bundles.make("softcap-50", attention("bf16", 128, "bottom_right", softcap=50))
    for i, (dtype, bias) in enumerate(BIASES):
        name = "-".join(("bias", dtype, *bias))
        yield bundles.make(name, attention(dtype, (64, 128)[i // 2 % 2], CAUSAL[i % 3], bias=bias))
    for causal, window in zip(CAUSAL, [(17, 33), (64, None), (None, 5)]):
        yield bundles.make(f"scores-{causal}", attention("f16", 64, causal, window=window, softcap=30, bias=("f16", "1hqk")))


def score_runs(bundles, sizes, batch, heads):
    """Every kernel of score_kernels on lengths of queries and keys; with few
    keys some queries see none. A single query gets many heads: the largest
    error of only a few rows of the yardstick is a matter of luck."""
    runs = []
    for bundle in score_kernels(bundles):
        for i, (sq, sk) in enumerate(sizes):
            h = 32 if sq == 1 else heads
            runs.append(alternate(bundle, i, (batch, h, h // 2, sq, sk)))
    return runs


def region_runs(bundles, name, options=()):
    """The masks and score changes of test/Masks, and one of sizes and a table that are known at run time only."""
    runs = [{"bundle": bundles.make(f"{name}-{path.stem}", path.read_text(), [*options])}
            for path in sorted((ROOT / "test/Masks").glob("*.mlir"))]
    # Bounds that a region gives, under schedules that divide the keys or begin ahead.
    schedules = [["--num-warps=8", "--block-n=64", "--key-splits=2"], ["--num-warps=16", "--block-n=64", "--grid=persistent"]] if options else [
        schedule_options(32, 32, 4, 4), [*schedule_options(64, 16, 4), "--key-splits=3"]]
    for i, schedule in enumerate(schedules):
        for mask in ("causal", "sliding-window", "global-local"):
            text = (ROOT / f"test/Masks/{mask}.mlir").read_text()
            runs.append({"bundle": bundles.make(f"{name}-{mask}-{i}", text, [*options, *schedule]), "kind": "rising"})
    open_sizes = attention("f16", 64, window=(90, None)) + """ %table=memref<?x?xf32, strided<[?, ?], offset: ?>> score={
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %bias = memref.load %table[%h, %j] : memref<?x?xf32, strided<[?, ?], offset: ?>>
    %result = arith.addf %score, %bias : f32
    flashcore.yield %result : f32
  } mask={
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %far = arith.constant 60 : index
    %distance = arith.subi %i, %j : index
    %size = math.absi %distance : index
    %visible = arith.cmpi ne, %size, %far : index
    flashcore.yield %visible : i1
  }"""
    bundle = bundles.make(f"{name}-open-sizes", open_sizes, [*options])
    for i, (sq, sk) in enumerate([(70, 150), (1, 203), (130, 3), (33, 0)]):
        run = alternate(bundle, i, (2, 4, 2, sq, sk))
        run["dims"] |= {"capture0_0": 4, "capture0_1": max(sk, 1)}
        runs.append(run)
    return runs


# Totals of queries and keys, and ends of sequences: the lengths are random, and the same in both where the totals are.
VARLEN_SIZES = [(300, 300, 6), (150, 333, 5), (90, 17, 9), (1, 64, 2), (40, 0, 4), (513, 513, 3)]


def sequence_runs(bundles, name):
    """Attentions of test/Sequences, whose lengths and pages are data."""
    runs = []
    for path in sorted((ROOT / "test/Sequences").glob("*.mlir")):
        bundle = bundles.make(f"{name}-{path.stem}", path.read_text())
        if path.stem == "paged-one-key":
            runs += [{"bundle": bundle, "dims": {"batch": 2, "heads_q": 4, "heads_kv": 2, "seqlen_q": sq, "pages": 2 * pages,
                                                 "pages_per_sequence": pages}} for sq, pages in [(40, 70), (1, 200), (3, 1)]]
            continue
        if "varlen" not in path.stem:
            sizes = {"dims": {"pages": 140}} if path.stem.startswith("paged") else {}
            runs += [{"bundle": bundle, "kind": kind, **sizes} for kind in KINDS]
            continue
        for i, (sq, sk, ends) in enumerate(VARLEN_SIZES):
            sizes = {"seqlen_q": sq, "cu_seqlens": ends}
            if path.stem == "paged-varlen":
                pages = sk // 32 + 1
                sizes |= {"pages": pages * ends, "pages_per_sequence": pages}
            else:
                sizes["seqlen_k"] = sk
            if path.stem != "varlen":
                sizes["sequences"] = ends - 1
            runs.append({"bundle": bundle, "dims": sizes, "kind": KINDS[i % 3]})
    return runs


def scores_output_runs(bundles):
    """Scores as an output, at every stage: types, head dims, masks and biases, sizes known and open, few queries, keys split
    over blocks, and tiles that end with the keys or do not."""
    runs = []
    sizes = [(70, 150), (1, 203), (130, 3), (64, 128)]
    changes = [dict(window=(17, 33), softcap=30, bias=("f16", "1hqk")), dict(bias=("f32", "b11k")), dict(softcap=50, scale=0.2)]
    for i, stage in enumerate(STAGES):
        for j, dtype in enumerate(("f32", *DTYPES)):
            words = attention(DTYPES[(i + j) % 2], (64, 80, 40)[j], CAUSAL[(i + j) % 3], scores=(stage, dtype), **changes[(i + 2 * j) % 3])
            bundle = bundles.make(f"scores-output-{stage}-{dtype}", words)
            runs += [alternate(bundle, i + j + k, (1, 4, 2, *size)) for k, size in enumerate(sizes[j:j + 2])]
    for i, (d, sq, sk, options) in enumerate(((7, 33, 64, []), (256, 40, 100, []), (128, 1, 1030, []), (64, 20, 300, ["--key-splits=3"]),
                                              (64, 100, 192, ["--grid=persistent"]), (72, 90, 136, ["--invariance=batch"]))):
        words = attention(DTYPES[i % 2], d, CAUSAL[i % 3], (2, 4, 2, sq, sk), scores=(STAGES[-1 - i % 2], ("f32", *DTYPES)[i % 3]))
        runs.append({"bundle": bundles.make(f"scores-output-{i}", words, options), "kind": KINDS[i % 3]})
    words = attention("f16", 64, "bottom_right", (1, 2, 2, 200, 300), scores=("probabilities", "f16"))
    runs.append({"bundle": bundles.make("scores-output-warpgroups", words, ["--chip=sm_90a", "--product=warpgroup"])})
    return runs


def dropout_runs(bundles, name, options=()):
    """Dropouts of every form of the loop, keys divided among warps and over blocks, tiles that begin in the middle
    of 32 keys, a mask, a region, and lengths and pages that are data."""
    runs = []
    if options:
        forms = [[], ["--overlap=none", "--row-max=checked"], ["--overlap=none", "--row-max=stale", "--grid=persistent"], ["--key-splits=2"],
                 ["--overlap=none", "--block-n=80"], ["--output=bulk"], ["--invariance=batch"]]
    else:
        forms = [["--row-max=exact", "--row-sum=add"], ["--row-max=stale", "--overlap=qk"], ["--row-max=folded", "--row-sum=mma"],
                 schedule_options(32, 16, 4, 4, 2), ["--key-splits=3"], ["--block-n=48"], ["--grid=persistent", "--query=shared"],
                 [*schedule_options(32, 32, 4, 4, 2), "--softmax=one_pass"], ["--invariance=batch"], ["--head-group=2"]]
    for i, form in enumerate(forms):
        is_one_pass = "--softmax=one_pass" in form
        words = attention(DTYPES[i % 2], (64, 64, 128)[i % 3], CAUSAL[i % 3], (2, 4, 2, 150, 250) if is_one_pass or i % 2 else ("?", 4, 2, "?", "?"),
                         dropout=(0.1, 0.5, 0.9)[i % 3], window=(70, None) if i % 4 == 3 else (None, None), bias=BIASES[i % 8][1] if i == 1 else None,
                         lse=may_have_lse(form))
        bundle = bundles.make(f"{name}-{i}", words, [*options, *form])
        sizes = {} if is_one_pass or i % 2 else {"dims": {"batch": 2, "seqlen_q": 150, "seqlen_k": 203}}
        runs.append({"bundle": bundle, "kind": "rising" if i % 4 == 1 else "normal", **sizes})
    for path in sorted((ROOT / "test/Integration").glob("dropout-*.mlir")):
        sizes = {"seqlen_q": 150, "cu_seqlens": 5}
        sizes |= {"pages": 60, "pages_per_sequence": 12, "sequences": 4} if "paged" in path.stem else {"seqlen_k": 333}
        runs.append({"bundle": bundles.make(f"{name}-{path.stem}", path.read_text(), [*options]), "dims": sizes})
    return runs


# dtype, head_dim (and head_dim_v), mask, sizes (None: open), rows to append, rotary, page_size, and a window.
APPENDS = [
    ("f16", (64, 64), "none", (2, 4, 2, 5, 203), 5, None, None, (None, None)),
    ("bf16", (128, 128), "bottom_right", (2, 8, 2, 1, 300), 1, (128, "half"), None, (None, None)),
    ("f16", (64, 64), "bottom_right", (3, 4, 4, 33, 150), 33, (32, "interleaved"), None, (None, None)),
    ("f16", (64, 64), "none", None, "?", (64, "half"), None, (None, None)),
    ("bf16", (40, 40), "bottom_right", None, "?", (20, "half"), None, (None, None)),
    ("f16", (36, 33), "bottom_right", (2, 4, 2, 7, 90), 4, (10, "interleaved"), None, (None, None)),
    ("bf16", (33, 33), "none", (2, 2, 1, 20, 64), 20, (6, "half"), None, (None, None)),
    ("f16", (64, 64), "bottom_right", ("?", 4, 2, "?", "?"), "?", (64, "interleaved"), 1, (None, None)),
    ("bf16", (64, 64), "none", ("?", 4, 2, "?", "?"), "?", None, 16, (None, None)),
    ("f16", (128, 128), "bottom_right", ("?", 8, 2, "?", "?"), "?", (64, "half"), 64, (None, None)),
    ("f16", (64, 64), "none", (2, 4, 2, 40, 200), 17, (16, "half"), None, (50, 0)),
    ("bf16", (64, 64), "bottom_right", ("?", 4, 2, "?", "?"), "?", (64, "half"), 48, (None, None)),
]


def append_runs(bundles, name, options=()):
    """Rows that are appended, with and without a rotary embedding: alone, of grouped heads, of narrow rows, in pages, under masks, and with
    keys that are split over blocks."""
    runs = []
    is_warpgroup = "--product=warpgroup" in options
    for i, (dtype, (d, dv), causal, shape, rows, rotary, page_size, window) in enumerate(APPENDS):
        if is_warpgroup and (d % 8 or dv % 8 or page_size == 1):
            continue  # products of warpgroups take none of these
        words = attention(dtype, d, causal, shape, dv, append=rows, rotary=rotary, page_size=page_size, window=window, lse=i % 2 == 0)
        sizes = {}
        if rows == "?":
            sizes = {"batch": 2, "seqlen_q": 19, "seqlen_new": (19, 3, 40)[i % 3], "seqlen_k": 160}
            sizes |= {"heads_q": 4, "heads_kv": 2} if shape is None else {}
        sizes |= {"positions": 333} if rotary else {}
        if page_size:
            pages = -(-sizes.pop("seqlen_k") // page_size)
            sizes |= {"pages_per_sequence": pages, "pages": 2 * pages}
        forms = [[], ["--key-splits=2"]] if i % 3 == 0 else [[]]
        if not shape or "?" in shape:
            forms = [*forms, ["--split-count=call"]] if i == 3 else forms
        for j, form in enumerate(forms):
            bundle = bundles.make(f"{name}-{i}-{j}", words, [*options, *form])
            runs.append({"bundle": bundle, "kind": "rising" if i % 4 == 1 else "normal", **({"dims": sizes} if sizes else {})})
    words = attention("f16", 64, "bottom_right", (2, 4, 2, 20, 90), scores=("masked", "f32"), append=20, rotary=(64, "half"))
    if not is_warpgroup:
        runs.append({"bundle": bundles.make(f"{name}-scores", words, options), "dims": {"positions": 90}})
        words = attention("f16", 64, "bottom_right", ("?", 4, 2, "?", "?"), append="?", rotary=(64, "half"))
        bundle = bundles.make(f"{name}-few-queries", words, ["--few-queries=16", *options])
        for sq in (1, 40):
            runs.append({"bundle": bundle, "dims": {"batch": 2, "seqlen_q": sq, "seqlen_k": 300, "seqlen_new": sq, "positions": 300}})
    return runs


def block_runs(bundles, name, options=()):
    """Lists of blocks: of every form of the loop, each mask, one for all heads and one for each, sizes known and not,
    blocks that end behind the sequence, rows of lists without blocks, no keys."""
    runs = []
    if options:
        forms = [(128, (128, 128, "11"), []), (64, (128, 64, "bh"), ["--overlap=none", "--row-max=checked"]), (64, (128, 128, "1h"), ["--grid=persistent"]),
                 (128, (256, 64, "b1"), ["--overlap=none", "--row-max=exact"]), (72, (64, 128, "11"), ["--num-warps=4", "--block-m=64"]),
                 (128, (64, 128, "11"), ["--head-group=2", "--num-warps=8", "--block-m=64"])]
    else:
        forms = [(64, (128, 128, "11"), []), (128, (64, 64, "bh"), ["--row-max=stale", "--row-sum=mma"]), (64, (32, 64, "1h"), ["--row-max=exact"]),
                 (80, (64, 32, "b1"), ["--row-max=stale", "--overlap=qk"]), (64, (32, 32, "11"), schedule_options(32, 16, 4, 4, 2)),
                 (64, (64, 128, "11"), ["--grid=persistent"]), (64, (16, 16, "bh"), ["--row-max=folded", "--row-sum=mma"]),
                 (72, (64, 64, "11"), ["--head-group=2", "--block-m=16", "--num-warps=2"]), (7, (128, 48, "bh"), ["--num-stages=3"])]
    masks = [dict(), dict(causal="bottom_right"), dict(causal="top_left", window=(70, None)), dict(window=(17, 33), softcap=30, bias=("f16", "1hqk")),
             dict(causal="bottom_right", dropout=0.3)]
    for i, (d, blocks, form) in enumerate(forms):
        shape = (2, 4, 2, 150, 250) if i % 2 else ("?", 4, 2, "?", "?")
        words = attention(DTYPES[i % 2], d, shape=shape, blocks=blocks, lse=may_have_lse(form), **masks[i % 5])
        bundle = bundles.make(f"{name}-{i}", words, [*options, *form])
        lengths = [{}] if i % 2 else [{"batch": 2, "seqlen_q": q, "seqlen_k": k} for q, k in ((70, 130), (300, 203), (40, 0))]
        runs += [{"bundle": bundle, "dims": length, "kind": kind} for length in lengths for kind in ("normal", "rising")]
    return runs


def packed_runs(bundles):
    """The strides and offsets of q, k and v in one tensor, fixed in the kernel
    and chosen at run time."""
    runs = []
    for d, causal in ((64, "none"), (72, "bottom_right")):
        b, h, s = 2, 3, 117
        layouts = packed_layouts(b, h, s, d)
        runs.append({"bundle": bundles.make(f"packed-d{d}", attention("f16", d, causal, (b, h, h, s, s), layouts=layouts))})
        bundle = bundles.make(f"check-f16-d{d}-{causal}", attention("f16", d, causal))
        runs.append({"bundle": bundle, "dims": dims(b, h, h, s, s), "tensors": layouts})
    return runs


def row_step(*head_dims):
    """What offsets and strides are multiples of, where they are open: as many elements as rows move at a time."""
    return max(min(d & -d, 8) for d in head_dims)


def narrow_runs(bundles, sizes):
    """Rows that are no whole chunks: strides and offsets that are open, keys
    divided among warps and over blocks, each form of the loop, rows further
    apart than they are long, and lengths and pages that are data."""
    runs = []
    forms = [[], schedule_options(32, 16, 4, 4, 2), ["--key-splits=3"], ["--query=shared", "--row-sum=add"],
             ["--row-max=stale", "--overlap=qk"], schedule_options(32, 16, 2, 1, 3)]
    for i, (d, dv) in enumerate(NARROW_HEAD_DIMS):
        for j, form in enumerate((forms[i % 6], forms[(i + 3) % 6])):
            words = attention(DTYPES[(i + j) % 2], d, CAUSAL[(i + j) % 3], head_dim_v=dv, bias=BIASES[i % 8][1] if i % 4 == 1 else None)
            bundle = bundles.make(f"narrow-d{d}-{dv}-{j}", words, form)
            runs += [alternate(bundle, i + k, (2, 4, 2, *size)) | {"offset": row_step(d, dv) * (k % 3)} for k, size in enumerate(sizes)]
    for i, (d, gap) in enumerate(((64, 1), (64, 4), (20, 4), (40, 2))):
        row = d + gap
        layouts = {name: {"strides": [2 * 90 * row, 90 * row, row, 1], "offset": gap} for name in "qkvo"}
        bundle = bundles.make(f"narrow-apart-d{d}-{gap}", attention(DTYPES[i % 2], d, CAUSAL[i % 3], (1, 2, 2, 90, 90), layouts=layouts))
        runs.append({"bundle": bundle})
    for i, (name, d, open_sizes) in enumerate((
            ("varlen", 20, {"seqlen_q": 150, "seqlen_k": 333, "cu_seqlens": 5}), ("paged", 7, {"pages": 140}), ("cache", 8, {}),
            ("paged-varlen", 33, {"seqlen_q": 90, "cu_seqlens": 4, "sequences": 3, "pages": 16, "pages_per_sequence": 4}))):
        text = (ROOT / f"test/Sequences/{name}.mlir").read_text().replace("x64xf16", f"x{d}xf16")
        runs.append({"bundle": bundles.make(f"narrow-{name}-d{d}", text), "kind": KINDS[i % 3], **({"dims": open_sizes} if open_sizes else {})})
    return runs


def schedule_options(*sizes):
    names = ("block-m", "block-n", "num-warps", "key-warps", "num-stages")
    return [f"--{name}={value}" for name, value in zip(names, sizes)]


def key_warps_runs(bundles, sizes):
    """Keys divided among the warps of a block: every mask and score, types, head
    dims, parts that see no key, parts of one tile. Rows, or rows and columns, are
    divided when the parts are merged; there are one or more groups of warps."""
    runs = []
    for i, schedule in enumerate([(32, 32, 4, 4, 2), (16, 16, 4, 4, 3), (64, 16, 4, 2, 2), (32, 16, 8, 8, 2), (48, 32, 3, 3, 2)]):
        options = schedule_options(*schedule)
        for j, causal in enumerate(CAUSAL):
            more = [f"--overlap={['none', 'qk'][(i + j) % 2]}", f"--query={['registers', 'shared'][(i + j) % 2]}"]
            more += [["--row-max=exact"], ["--row-max=stale"],
                     ["--row-max=stale"] if (i + j) % 2 else ["--row-max=folded", "--row-sum=mma"]][j]
            words = attention(DTYPES[j % 2], 64, causal, lse=may_have_lse(more))
            bundle = bundles.make(f"key-warps-{i}-{causal}", words, [*options, *more])
            runs += [alternate(bundle, i + j + k, (1, 2, 1, *size)) for k, size in enumerate(sizes)]
        for j, window in enumerate(WINDOWS):
            words = attention(DTYPES[(i + j) % 2], 32, CAUSAL[(i + j) % 3], window=window, softcap=30 if j % 2 else None,
                             bias=BIASES[(2 * i + j) % 8][1], lse=j != 2)
            bundle = bundles.make(f"key-warps-{i}-window-{j}", words, options)
            runs += [alternate(bundle, i + j + k, (1, 2, 1, *size)) for k, size in enumerate(sizes)]
    # One pass: lengths known at compile time, tiles that a part or a block lacks.
    for i, (schedule, sk) in enumerate([((32, 16, 4, 4, 5), 250), ((16, 16, 4, 4, 2), 170), ((32, 32, 2, 2, 2), 64),
                                        ((64, 16, 8, 4, 2), 100), ((32, 16, 2, 1, 3), 60), ((16, 32, 1, 1, 2), 40)]):
        more = ["--softmax=one_pass", f"--query={['registers', 'shared'][i % 2]}", f"--row-sum={['add', 'mma'][i // 2 % 2]}"]
        for j, window in enumerate([(None, None), (None, None), *WINDOWS]):
            words = attention(DTYPES[(i + j) % 2], 64 if j < 2 else 32, CAUSAL[(i + j) % 3], (1, 2, 1, 150, sk), window=window,
                             head_dim_v=48 if j == 1 else None, softcap=30 if j == 3 else None, bias=BIASES[i][1] if j == 4 else None,
                             lse=may_have_lse(more))
            bundle = bundles.make(f"one-pass-{i}-{j}", words, schedule_options(*schedule) + more)
            runs.append({"bundle": bundle, "kind": ["normal", "rising"][j % 2]})
    for d, dv, sk, schedule in ((128, 128, 16, (32, 16, 4, 4, 2)), (96, 64, 64, (32, 16, 4, 4, 2)), (16, 48, 100, (32, 16, 8, 8, 2)),
                                (40, 72, 250, (32, 32, 4, 4, 2)), (256, 256, 70, (16, 16, 2, 2, 2)), (80, 160, 64, (16, 16, 4, 4, 2))):
        bundle = bundles.make(f"key-warps-d{d}-{dv}", attention("f16", d, "none", (1, 2, 2, 70, sk), head_dim_v=dv),
                              schedule_options(*schedule))
        runs.append({"bundle": bundle})
    return runs


def split_runs(bundles):
    """Blocks of several heads and keys split over blocks, in small: the defaults
    for few rows over many keys, also of a batch that fills the chip, and forced
    ones with every mask, more splits than key tiles and no keys at all."""
    runs = []
    for name, dtype, d, causal, shape in (
            ("d128", "f16", 128, "none", (1, 8, 2, 1, 1500)), ("d64", "bf16", 64, "bottom_right", (2, 4, 1, 7, 1100)),
            ("d256", "f16", 256, "top_left", (1, 2, 2, 3, 1024)), ("rows", "f16", 64, "bottom_right", (1, 6, 1, 40, 1030)),
            ("batch", "f16", 64, "none", (17, 32, 8, 1, 70))):
        runs.append({"bundle": bundles.make(f"split-{name}", attention(dtype, d, causal, shape))})
    heads = ("?", 6, 2)
    schedules = [["--key-splits=3"], ["--head-group=3", "--num-warps=3", "--block-m=16", "--block-n=32", "--key-splits=7"],
                 ["--head-group=3", "--key-splits=17", "--num-warps=6", "--block-n=16", "--num-stages=4", "--query=shared"],
                 ["--key-splits=2", "--overlap=qk", "--row-max=stale", "--row-sum=mma", "--grid-order=head_fastest"]]
    masks = [dict(causal="none"), dict(causal="bottom_right"), dict(causal="top_left", window=(40, None)),
             dict(causal="none", window=(50, 20), softcap=30, bias=("f16", "bhqk"))]
    sizes = [(1, 333), (37, 200), (70, 40), (5, 1), (3, 0)]
    for (i, options), (j, mask) in itertools.product(enumerate(schedules), enumerate(masks)):
        words = attention(DTYPES[(i + j) % 2], (64, 72)[i % 2], shape=(*heads, "?", "?"),
                         lse=(i + j) % 3 != 0 and may_have_lse(options), **mask)
        bundle = bundles.make(f"split-{i}-{j}", words, options)
        for k in range(2 if i else len(sizes)):
            sq, sk = sizes[(i + j + k) % len(sizes)]
            runs.append({"bundle": bundle, "dims": {"batch": 1 + k % 2, "seqlen_q": sq, "seqlen_k": sk},
                         "kind": ["normal", "rising"][j % 2]})
    return runs


def split_query_runs(bundles):
    """Part of Q in registers: head dims that are and are no multiple of 16, one
    step and all but one, each form of the loop, keys divided among warps; and
    heads that take turns, which do and do not divide their number."""
    runs = []
    forms = [["--row-max=exact"], ["--row-max=stale"], ["--row-max=folded", "--row-sum=mma"], ["--row-max=stale", "--overlap=qk"],
             schedule_options(32, 16, 4, 4, 2), [*schedule_options(32, 32, 4, 4, 2), "--softmax=one_pass"], ["--grid=persistent"]]
    for i, form in enumerate(forms):
        for j, (d, steps) in enumerate(((64, 1), (40, 2), (72, 4))):
            shape = (1, 3, 3, 150, 170) if i == 5 else None
            words = attention(DTYPES[(i + j) % 2], d, CAUSAL[(i + j) % 3], shape, window=WINDOWS[j] if i in (1, 4) else (None, None),
                             lse=may_have_lse(form))
            options = [*form, "--query=split", f"--query-steps={steps}"]
            options += ["--grid-order=head_fastest", f"--grid-heads={[2, 3, 4][j]}"] if i % 2 else []
            bundle = bundles.make(f"split-query-{i}-{d}", words, options)
            sizes = [()] if shape else [dims(2, 3, 3, 150, 170), dims(1, 5, 5, 33, 203)]
            runs += [{"bundle": bundle, **({"dims": size} if size else {}), "kind": ["normal", "rising"][(i + j) % 2]} for size in sizes]
    # The defaults: half of Q at the widest heads, turns of heads where there are many.
    runs.append({"bundle": bundles.make("split-query-default", attention("bf16", 256, "bottom_right")), "dims": dims(1, 2, 1, 70, 150)})
    runs.append({"bundle": bundles.make("turns-default", attention("f16", 256, "bottom_right", (43, 3, 3, 130, 40)))})
    # Turns of groups of heads.
    options = ["--head-group=2", "--block-m=16", "--num-warps=2", "--grid-order=head_fastest", "--grid-heads=3"]
    bundle = bundles.make("turns-groups", attention("f16", 72, "top_left", ("?", 4, 2, "?", "?")), options)
    runs.append({"bundle": bundle, "dims": {"batch": 4, "seqlen_q": 70, "seqlen_k": 50}})
    return runs


def persistent_runs(bundles, batch):
    """Blocks that walk several tiles, where there are fewer SMs than tiles: masks,
    scores and head dims, each way to divide the keys, rings of two to five slots,
    blocks that own heads, tiles without keys, more blocks than tiles."""
    runs = []
    schedules = [[], ["--block-m=32", "--block-n=16", "--num-warps=1", "--num-stages=5", "--query=shared"],
                 ["--block-m=64", "--block-n=32", "--num-warps=4", "--num-stages=3", "--overlap=qk"],
                 ["--block-m=64", "--num-warps=2", "--grid-order=head_fastest", "--min-blocks=2", "--row-max=stale"],
                 [*schedule_options(32, 16, 4, 2, 2), "--query=shared"], [*schedule_options(16, 16, 4, 4, 2), "--overlap=qk"],
                 ["--head-group=2", "--block-m=16", "--num-warps=2", "--key-splits=3"]]
    masks = [dict(causal="none"), dict(causal="bottom_right"), dict(causal="top_left", window=(40, None)),
             dict(causal="none", window=(17, 33), softcap=30, bias=("f16", "bhqk"))]
    sizes = [(150, 170), (70, 40), (33, 203), (40, 0), (1, 64)]
    for (i, options), (j, mask) in itertools.product(enumerate(schedules), enumerate(masks)):
        words = attention(DTYPES[(i + j) % 2], (64, 80, 32, 96)[j], shape=("?", 4, 2, "?", "?"), lse=(i + j) % 3 != 0, **mask)
        bundle = bundles.make(f"persistent-{i}-{j}", words, ["--grid=persistent", *options])
        sq, sk = sizes[(i + j) % len(sizes)]
        runs.append({"bundle": bundle, "dims": {"batch": batch, "seqlen_q": sq, "seqlen_k": sk}, "kind": ["normal", "rising"][j % 2]})
    # Sizes known at compile time: no key loop, and one of one tile.
    for i, (sk, d, options) in enumerate([(60, 64, ["--softmax=one_pass", *schedule_options(32, 16, 2, 1, 3)]),
                                          (120, 64, ["--softmax=one_pass", *schedule_options(16, 16, 4, 4, 2)]),
                                          (16, 64, []), (100, 256, []), (203, 72, [])]):
        words = attention(DTYPES[i % 2], d, CAUSAL[i % 3], (batch, 4, 2, 150, sk))
        runs.append({"bundle": bundles.make(f"persistent-static-{batch}-{i}", words, ["--grid=persistent", *options])})
    return runs


def decode_runs(bundles):
    """Decoding as it is served: short queries, grouped heads, long keys."""
    runs = []
    for (batch, sk), sq in itertools.product(((1, 8192), (1, 65536), (16, 8192)), (1, 4, 16)):
        for causal in CAUSAL[:2]:
            words = attention("bf16" if sq == 4 else "f16", 128, causal, (batch, 32, 8, sq, sk))
            runs.append({"bundle": bundles.make(f"decode-{batch}-{sq}-{sk}-{causal}", words)})
    for name, sq, sk, features in (("window", 4, 8191, dict(causal="bottom_right", window=(2000, None))),
                                   ("ragged", 3, 7777, dict(causal="bottom_right", softcap=30)),
                                   ("bias", 1, 4099, dict(bias=("f16", "b1qk")))):
        words = attention("f16", 128, shape=(2, 32, 8, sq, sk), **features)
        runs.append({"bundle": bundles.make(f"decode-{name}", words), "kind": "rising"})
    bundle = bundles.make("decode-dynamic", attention("f16", 128, "bottom_right", ("?", 32, 8, "?", "?")),
                          ["--head-group=4", "--num-warps=4", "--block-m=16", "--key-splits=64"])
    for sq, sk in ((1, 8192), (16, 1000), (1, 63), (4, 1)):
        runs.append({"bundle": bundle, "dims": {"batch": 3, "seqlen_q": sq, "seqlen_k": sk}})
    return runs


def check_grid(bundles):
    """Every length against its neighbours, every kernel: results only."""
    runs = []
    for dtype, d, causal in itertools.product(DTYPES, HEAD_DIMS, CAUSAL):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for i, (sq, sk) in enumerate(itertools.product(SEQLENS, SEQLENS)):
            # The full square for one dtype and head_dim, a diagonal band of it
            # for the others; layouts, kinds and offsets in turn.
            if (dtype, d) != ("f16", 64) and sq != sk and (i + d) % 5:
                continue
            runs.append(alternate(bundle, i, (2, 3, 3, sq, sk)))
    # Grouped heads, other head dims, head_dim_v, static shapes with a tail.
    for d in (32, 48, 96, 112):
        bundle = bundles.make(f"check-f16-d{d}-bottom_right", attention("f16", d, "bottom_right"))
        runs.append({"bundle": bundle, "dims": dims(1, 6, 2, 203, 333)})
    for d, dv in ((64, 128), (192, 128), (40, 72)):
        bundle = bundles.make(f"check-f16-d{d}-v{dv}", attention("f16", d, "none", head_dim_v=dv))
        runs.append({"bundle": bundle, "dims": dims(1, 4, 1, 257, 129)})
    for dtype, d, causal in itertools.product(DTYPES, ODD_HEAD_DIMS, CAUSAL[:2]):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for i, (sq, sk) in enumerate(FLASH_ATTENTION_SEQLENS):
            runs.append(alternate(bundle, i, (2, 4, 2, sq, sk)))
    # K and V of 4.5 GiB each: their last rows are more than 2^31 elements away.
    rows, stride = 2304, 1 << 20
    huge = {"strides": [rows * stride, rows * stride, stride, 1], "offset": 0}
    runs.append({"bundle": "check-f16-d64-none.fcb", "dims": dims(1, 1, 1, 130, rows), "tensors": {"k": huge, "v": huge}})
    sizes = [(130, 3), (203, 64), (90, 1), (64, 113), (512, 512), (300, 1023), (1024, 1024), (1, 203)]
    runs += score_runs(bundles, sizes, batch=2, heads=4)
    runs += region_runs(bundles, "region")
    runs += sequence_runs(bundles, "sequences")
    runs += scores_output_runs(bundles)
    runs += dropout_runs(bundles, "dropout")
    runs += append_runs(bundles, "append")
    runs += block_runs(bundles, "blocks")
    runs += packed_runs(bundles)
    runs += narrow_runs(bundles, [(203, 333), (1, 1500), (130, 3), (513, 512), (1, 1), (5, 0)])
    runs += split_runs(bundles)
    runs += split_query_runs(bundles)
    runs += decode_runs(bundles)
    runs += persistent_runs(bundles, batch=40)
    runs += key_warps_runs(bundles, sizes)
    runs += ladder_runs(bundles, seqlen=512)
    runs += unfused_runs(bundles)
    # Machine code for the cards at hand, which the loader takes instead of PTX.
    for chip in ("sm_80", "sm_86", "sm_90"):
        bundle = bundles.make(f"check-{chip}", attention("f16", 64, "bottom_right"), [f"--chip={chip}"])
        runs.append({"bundle": bundle, "dims": dims(1, 4, 4, 300, 300)})
    for causal in CAUSAL:
        bundle = bundles.make(f"check-static-{causal}", attention("bf16", 128, causal, (1, 2, 2, 300, 177)))
        runs.append({"bundle": bundle})
    # Where the chip has products of warpgroups, those, and the others elsewhere.
    for i, (d, dv) in enumerate([(64, 64), (128, 128), (256, 256), (192, 128)]):
        words = attention(DTYPES[i % 2], d, "none", (2, 16, 8, 1000, 1024), head_dim_v=dv)
        bundle = bundles.make(f"check-warpgroups-{d}-{dv}", words, ["--chip=sm_80,sm_90a"])
        runs.append({"bundle": bundle, "kind": KINDS[i % 3]})
    runs += large_warpgroup_runs(bundles)
    runs += call_class_grid.call_class_runs(bundles, "sm_89", CALLS)
    for bundle in ("check-f16-d64-none", "check-f16-d128-none", "scores-none", "scores-bottom_right"):
        runs += stage_runs(f"{bundle}.fcb")
    return runs + far_grid.far_runs(bundles)


def chip_runs(bundles, chip, head_dims):
    """Defaults for a chip, of sizes that only the call knows: types, masks and ragged sizes in turns."""
    runs = []
    for i, d in enumerate(head_dims):
        words = attention(DTYPES[i % 2], d, CAUSAL[i % 3], lse=i % 4 != 3)
        bundle = bundles.make(f"chip-{chip}-d{d}", words, [f"--chip={chip}", "--no-cubin"])
        runs += [alternate(bundle, i + j, (1, 4, 2, *size)) for j, size in enumerate([(70, 150), (1, 203), (130, 33)])]
    return runs


def chip_grid(bundles):
    """Each chip that the compiler knows, at every head_dim of whole chunks of 16 bytes."""
    return [run for chip in compiler_lists.list_chips(bundles.compiler) for run in chip_runs(bundles, chip, range(8, 257, 8))]


# The ancestors' shapes (docs/Ladder.md): head_dim, mask and sizes, shorter on the emulator.
LADDER = [(64, "none", 512), (32, "none", 512), (128, "none", 512), (64, "none", 500), (64, "bottom_right", 512)]


def ladder_runs(bundles, seqlen):
    """The schedules that have a name, of sequences up to `seqlen`, stage by stage, and what chips without mma.sync m16n8k16
    get, of masks, score changes, sizes that are data and outputs that the other grids have."""
    runs = []
    names = [name for name, chip in compiler_lists.list_schedules(bundles.compiler) if chip == "any"]
    for i, name in enumerate(names):
        stem = f"ladder-{name.lstrip('+')}"
        for j, (head_dim, causal, length) in enumerate(LADDER):
            sizes = (1, 2, 2, min(length, seqlen), min(length, seqlen))
            bundle = bundles.make(f"{stem}-{j}", attention("f16", head_dim, causal, sizes, lse=True), [f"--schedule={name}"])
            runs.append({"bundle": bundle, "kind": KINDS[(i + j) % 3]})
        bundle = bundles.make(f"{stem}-stages", attention("f16", 64, "none", lse=True), [f"--schedule={name}"])
        runs += stage_runs(bundle)
    # A warp of its own that copies: rows of odd alignment, by way of registers too, tiles that some warps pass by, splits, block after block.
    for i, (head_dim, causal, features, options) in enumerate([
        (64, "bottom_right", {}, ["--product=wmma", "--num-stages=3"]), (48, "none", {"window": (40, 3)}, ["--product=wmma", "--grid=persistent"]),
        (128, "bottom_right", {"bias": ("f32", "1h1k")}, ["--product=wmma", "--key-splits=2"]), (64, "top_left", {"softcap": 20.0}, ["--product=thread"]),
    ]):  # fmt: skip
        words = attention("f16", head_dim, causal, lse=i % 2 == 0, **features)
        bundle = bundles.make(f"ladder-producer-{i}", words, ["--copies=producer", *options])
        runs += [alternate(bundle, i + k, (1, 4, 2, *size)) | {"offset": row_step(head_dim) * (k % 3)}
                 for k, size in enumerate([(70, 130), (1, 300), (150, 150), (33, 0)])]
    for i, (chip, dtype) in enumerate([("sm_70", "f16"), ("sm_70", "bf16"), ("sm_75", "f16"), ("sm_75", "bf16")]):
        for j, (head_dim, features) in enumerate([
            (64, {"window": (40, 3)}), (72, {}), (128, {"softcap": 20.0}), (256, {"bias": ("f32", "1h1k")}), (33, {}), (64, {"head_dim_v": 128, "dropout": 0.25}),
        ]):  # fmt: skip
            words = attention(dtype, head_dim, CAUSAL[(i + j) % 3], lse=j % 2 == 0, **features)
            bundle = bundles.make(f"ladder-{chip}-{dtype}-{j}", words, [f"--chip={chip}", "--no-cubin"])
            runs += [alternate(bundle, j + k, (1, 4, 2, *size)) | {"offset": row_step(head_dim) * (k % 3)}
                     for k, size in enumerate([(70, 130), (1, 300), (33, 0)])]
    return runs


def unfused_runs(bundles):
    """Three kernels, with S and P in global memory, of either product: head dims, masks, score changes and regions, sinks and lengths
    that are data, scores that are an output as well, shapes of blocks, sizes known and open, no keys, chips without cp.async."""
    runs = []
    forms = [["--chip=sm_89"], ["--chip=sm_70"], ["--chip=sm_80", "--product=warp"], ["--chip=sm_75", "--product=warp"],
             [*schedule_options(64, 48, 4, 1, 3), "--product=wmma"], [*schedule_options(128, 64, 8, 1, 2), "--product=warp", "--query=registers"]]
    problems = [dict(head_dim=64), dict(head_dim=128, window=(40, 3)), dict(head_dim=32, bias=("f32", "1h1k")),
                dict(head_dim=256, softcap=20.0), dict(head_dim=64, head_dim_v=128, bias=("f16", "b11k")), dict(head_dim=48, scale=0.2)]
    for i, form in enumerate(forms):
        for j, problem in enumerate(problems[i % 2::2]):
            words = attention("f16", causal=CAUSAL[(i + j) % 3], lse=j != 1, **problem)
            bundle = bundles.make(f"unfused-{i}-{j}", words, ["--softmax=unfused", *form])
            runs += [alternate(bundle, i + j + k, (2, 4, 2, *size)) for k, size in enumerate([(70, 150), (1, 300), (33, 0), (130, 3)][j::2])]
    for i, (d, sq, sk, scores) in enumerate([(64, 90, 40, None), (80, 33, 200, ("masked", "f16")), (40, 64, 64, ("probabilities", "f32"))]):
        words = attention("bf16", d, CAUSAL[i], (1, 4, 2, sq, sk), scores=scores)
        runs.append({"bundle": bundles.make(f"unfused-static-{i}", words, ["--softmax=unfused"]), "kind": KINDS[i]})
    for folder, names in (("Masks", ("causal", "global-local", "sliding-window")), ("Sequences", ("cache", "prefill", "scores"))):
        for name in names:
            bundle = bundles.make(f"unfused-{name}", (ROOT / f"test/{folder}/{name}.mlir").read_text(), ["--softmax=unfused"])
            runs.append({"bundle": bundle})
    return runs


def warpgroup_runs(bundles):
    """Kernels of warpgroups, asked for where the grid is small: head dims, more rows than tiles, one tile, one
    warpgroup and three, products that wait for each other, three stages."""
    runs = []
    problems = [
        ("f16", 128, 128, (1, 2, 1, 256, 512), []),
        ("bf16", 128, 128, (2, 2, 2, 130, 384), []),
        ("f16", 128, 128, (1, 1, 1, 128, 128), []),
        ("f16", 128, 128, (1, 2, 2, 70, 256), ["--num-warps=4", "--block-m=64"]),
        ("f16", 64, 64, (1, 2, 1, 400, 512), []),
        ("bf16", 64, 64, (1, 2, 2, 192, 256), ["--num-warps=8", "--block-m=128", "--overlap=none"]),
        ("f16", 256, 256, (1, 1, 1, 256, 320), []),
        ("f16", 192, 128, (1, 1, 1, 128, 192), ["--block-n=64", "--num-stages=3"]),
        ("f16", 64, 128, (1, 1, 1, 128, 480), ["--block-n=96"]),
    ]
    for i, (dtype, d, dv, sizes, options) in enumerate(problems):
        words = attention(dtype, d, "none", sizes, head_dim_v=dv)
        bundle = bundles.make(f"warpgroups-{i}", words, ["--chip=sm_90a", "--product=warpgroup", *options])
        runs.append({"bundle": bundle, "kind": KINDS[i % 3]})
    return runs


# Of kernels of warpgroups: type, head_dim and head_dim_v, mask and scores, sizes (batch, heads_q, heads_kv, seqlen_q,
# seqlen_k), options.
WARPGROUP_SCORES = [
    ("f16", 128, 128, dict(causal="bottom_right"), (1, 2, 1, 300, 300), []),
    ("bf16", 64, 64, dict(causal="top_left"), (1, 2, 2, 200, 333), []),
    # Rows that see no key.
    ("f16", 128, 128, dict(causal="bottom_right"), (1, 1, 1, 300, 130), ["--row-sum=add"]),
    ("f16", 64, 64, dict(causal="bottom_right"), (2, 2, 1, 400, 70), ["--row-max=stale"]),
    ("bf16", 128, 128, dict(window=(64, 0)), (1, 2, 1, 256, 320), []),
    ("f16", 64, 64, dict(causal="top_left", window=(40, None)), (1, 2, 2, 256, 200), ["--num-warps=8", "--block-m=128"]),
    ("f16", 64, 64, dict(window=(17, 33), softcap=30), (1, 2, 1, 200, 256), []),
    ("f16", 64, 64, dict(bias=("f16", "bhqk")), (1, 2, 1, 130, 203), []),
    ("bf16", 128, 128, dict(causal="bottom_right", bias=("f32", "1h1k"), softcap=50), (1, 2, 2, 150, 170), []),
    # Tiles that are no whole panels, and more of them than one.
    ("f16", 72, 72, dict(), (1, 2, 1, 150, 203), []),
    ("bf16", 96, 96, dict(causal="bottom_right"), (1, 2, 2, 203, 150), []),
    ("f16", 16, 40, dict(causal="top_left"), (1, 2, 1, 200, 100), []),
    ("f16", 192, 128, dict(causal="bottom_right"), (1, 2, 1, 192, 192), []),
    ("bf16", 224, 192, dict(), (1, 1, 1, 130, 200), []),
    ("f16", 256, 256, dict(causal="bottom_right"), (1, 1, 1, 256, 256), []),
    # Every maximum with every sum and overlap, on scores that keep rising.
    ("f16", 128, 128, dict(), (1, 2, 1, 128, 512), ["--row-max=exact", "--row-sum=add"]),
    ("bf16", 64, 64, dict(), (1, 2, 2, 192, 500), ["--row-max=stale", "--row-sum=add"]),
    ("f16", 128, 128, dict(causal="bottom_right"), (1, 2, 1, 256, 256), ["--row-max=stale", "--overlap=none"]),
    ("f16", 128, 128, dict(), (1, 2, 1, 128, 1), []),
    ("f16", 64, 64, dict(), (1, 2, 1, 1, 129), ["--num-stages=3"]),
]


def warpgroup_score_runs(bundles):
    """Kernels of warpgroups under masks, of lengths that are no whole tiles, of tiles that are no whole panels, and of
    each way to follow the maximum."""
    runs = []
    for i, (dtype, d, dv, features, sizes, options) in enumerate(WARPGROUP_SCORES):
        words = attention(dtype, d, shape=sizes, head_dim_v=dv, lse=i % 3 != 1, **features)
        bundle = bundles.make(f"warpgroups-scores-{i}", words, ["--chip=sm_90a", "--product=warpgroup", *options])
        runs.append({"bundle": bundle, "kind": "rising" if "--row-max" in " ".join(options) else KINDS[i % 3]})
    return runs


def warpgroup_size_runs(bundles):
    """Kernels of warpgroups whose sizes and strides are known at run time only: no keys, one, and many."""
    runs = []
    sizes = [(1, 2, 1, 200, 300), (2, 4, 2, 65, 129), (1, 2, 2, 1, 1), (1, 2, 1, 130, 0), (1, 1, 1, 300, 64)]
    for i, (d, causal) in enumerate(((128, "none"), (64, "bottom_right"), (96, "top_left"))):
        bundle = bundles.make(f"warpgroups-sizes-{i}", attention(DTYPES[i % 2], d, causal), ["--chip=sm_90a", "--product=warpgroup"])
        runs += [alternate(bundle, j, size) for j, size in enumerate(sizes)]
    return runs


def warpgroup_persistent_runs(bundles, batch):
    """Blocks of warpgroups that walk several tiles: as many keys each time, and other numbers, known and not."""
    runs = []
    for i, (d, causal, sk, options) in enumerate([
            (128, "none", 300, []), (64, "bottom_right", 250, []), (64, "none", 128, ["--row-max=stale"]),
            (256, "bottom_right", 200, []), (128, "bottom_right", "?", ["--num-stages=3", "--block-n=64"])]):
        words = attention(DTYPES[i % 2], d, causal, ("?", 4, 2, 250, sk), lse=i % 2 == 0)
        bundle = bundles.make(f"warpgroups-persistent-{i}", words, ["--chip=sm_90a", "--product=warpgroup", "--grid=persistent", *options])
        lengths = [{}] if sk != "?" else [{"seqlen_k": 250}, {"seqlen_k": 1}, {"seqlen_k": 0}]
        runs += [{"bundle": bundle, "dims": {"batch": batch, **length}} for length in lengths]
    return runs


def warpgroup_split_runs(bundles):
    """Kernels of warpgroups whose blocks share out the keys, or have warpgroups of several heads: masks, sizes known
    and not, parts without keys, and no keys at all."""
    runs = []
    splits = ["--key-splits=3"]
    heads = ["--head-group=2", "--num-warps=8", "--block-m=64"]
    for i, (d, features, sizes, options) in enumerate([
            (128, dict(), (1, 2, 1, 100, 700), splits), (64, dict(causal="bottom_right"), (1, 4, 2, 64, 330), [*heads, *splits]),
            (128, dict(window=(100, 0)), (1, 2, 2, 150, 600), ["--key-splits=2", "--block-n=64"]),
            (256, dict(causal="bottom_right"), (1, 1, 1, 130, 300), ["--key-splits=2"]),
            (64, dict(softcap=30), (2, 2, 2, 40, 400), ["--key-splits=4", "--row-max=checked", "--overlap=none"]),
            (96, dict(causal="top_left"), ("?", 4, 2, "?", "?"), [*heads, "--key-splits=5"]),
            (128, dict(bias=("f16", "1hqk")), (1, 4, 1, 50, 200), [*heads, "--grid=persistent"])]):
        words = attention(DTYPES[i % 2], d, shape=sizes, lse=i % 3 != 1, **features)
        bundle = bundles.make(f"warpgroups-split-{i}", words, ["--chip=sm_90a", "--product=warpgroup", *options])
        lengths = [{}] if "?" not in sizes else [{"batch": 1, "seqlen_q": q, "seqlen_k": k} for q, k in ((70, 500), (200, 3), (1, 0))]
        runs += [{"bundle": bundle, "dims": length, "kind": ["normal", "falling"][i % 2]} for length in lengths]
    return runs


def warpgroup_bulk_runs(bundles, batch):
    """O by way of shared memory: whole tiles and ragged ones, columns that fill no panel, several panels, walks that
    are done again, persistent blocks, other strides."""
    runs = []
    for i, (d, dv, features, sizes, options) in enumerate([
            (64, 64, dict(), (1, 2, 1, 256, 300), []), (128, 128, dict(causal="bottom_right"), (1, 2, 1, 250, 200), []),
            (72, 72, dict(), (1, 2, 2, 130, 203), []), (256, 256, dict(), (1, 1, 1, 70, 100), ["--num-warps=4", "--block-m=64"]),
            (64, 96, dict(causal="top_left"), None, []), (64, 64, dict(), (2, 4, 2, 40, 200), ["--head-group=2", "--num-warps=8"]),
            (64, 64, dict(), (1, 2, 1, 200, 170), ["--row-max=checked"]),
            (128, 128, dict(causal="bottom_right"), ("?", 4, 2, 250, 200), ["--grid=persistent"])]):
        words = attention(DTYPES[i % 2], d, shape=sizes, head_dim_v=dv, lse=i % 2 == 0, **features)
        bundle = bundles.make(f"warpgroups-bulk-{i}", words, ["--chip=sm_90a", "--product=warpgroup", "--output=bulk", *options])
        if not sizes:
            runs += [alternate(bundle, j, (1, 2, 1, *lengths)) for j, lengths in enumerate([(200, 300), (65, 129), (1, 1), (130, 0)])]
        else:
            runs.append({"bundle": bundle, "kind": "spiked" if i == 6 else "normal", "dims": {"batch": batch} if sizes[0] == "?" else {}})
    return runs


# What CHECKED_KINDS are for: a maximum that rises as tiles are walked, rows that are lost and done again.
CHECKED_KINDS = ["normal", "falling", "spiked", "rising"]


def warpgroup_checked_runs(bundles):
    """A row maximum that is checked behind the exponentials, on scores that it keeps up with, and on such that it does
    not: with each sum and overlap, masks, sizes known at run time, few keys, in persistent grids."""
    runs = []
    checked = ["--row-max=checked"]
    for i, (d, features, sizes, options) in enumerate([
            (64, dict(), (1, 2, 1, 256, 320), ["--num-warps=16", "--block-m=256", "--block-n=80", "--overlap=none"]),
            (64, dict(causal="bottom_right"), (1, 2, 2, 250, 250), ["--num-warps=16", "--block-m=256", "--block-n=64", "--overlap=pv"]),
            (48, dict(window=(100, 0)), (1, 2, 1, 200, 300), ["--num-warps=8", "--block-m=128", "--block-n=64", "--overlap=none", "--min-blocks=2"]),
            (128, dict(causal="top_left"), (1, 1, 1, 130, 200), ["--num-warps=8", "--block-m=128", "--row-sum=add"]),
            (64, dict(), ("?", 2, 1, 150, "?"), ["--num-warps=8", "--block-m=128", "--grid=persistent"])]):
        words = attention(DTYPES[i % 2], d, shape=sizes, lse=i % 2 == 0, **features)
        bundle = bundles.make(f"warpgroups-checked-{i}", words, ["--chip=sm_90a", "--product=warpgroup", *checked, *options])
        lengths = [{}] if "?" not in sizes else [{"batch": 3, "seqlen_k": k} for k in (250, 1, 0)]
        runs += [{"bundle": bundle, "dims": length, "kind": kind} for length in lengths for kind in CHECKED_KINDS]
    return runs


def large_warpgroup_runs(bundles):
    """Kernels of warpgroups as the defaults make them, of grids that fill a chip; those of warps where it has none."""
    runs = []
    for i, (d, causal, sizes) in enumerate([
            (64, "none", (16, 16, 16, 512, 512)), (64, "bottom_right", (16, 16, 16, 512, 512)), (64, "bottom_right", (2, 16, 4, 2048, 2048)),
            (128, "bottom_right", (8, 16, 4, 1024, 1024)), (128, "bottom_right", (1, 32, 8, 4096, 4096)),
            (128, "none", (1, 32, 32, 3000, 4001)), (256, "none", (4, 16, 8, 1000, 1000)), (256, "bottom_right", (1, 16, 16, 4096, 4096))]):
        bundle = bundles.make(f"warpgroups-large-{i}", attention(DTYPES[i % 2], d, causal, sizes), ["--chip=sm_80,sm_90a"])
        runs.append({"bundle": bundle, "kind": KINDS[i % 3]})
    for i, features in enumerate((dict(window=(512, 0)), dict(causal="bottom_right", bias=("f16", "1hqk")), dict(softcap=30))):
        words = attention(DTYPES[i % 2], 128, shape=(2, 32, 8, 2048, 2048), **features)
        runs.append({"bundle": bundles.make(f"warpgroups-large-scores-{i}", words, ["--chip=sm_80,sm_90a"])})
    for d, causal in ((64, "none"), (128, "bottom_right")):
        bundle = bundles.make(f"warpgroups-large-sizes-{d}", attention("f16", d, causal), ["--chip=sm_80,sm_90a"])
        runs += [alternate(bundle, i, size) for i, size in enumerate([(4, 16, 4, 1023, 1024), (16, 16, 16, 300, 77), (2, 16, 8, 2048, 0)])]
    return runs


def warpgroup_grid(bundles):
    """Kernels that run on chips with products of warpgroups only."""
    return [*warpgroup_runs(bundles), *warpgroup_score_runs(bundles), *warpgroup_size_runs(bundles), *warpgroup_split_runs(bundles),
            *warpgroup_checked_runs(bundles), *warpgroup_bulk_runs(bundles, batch=150),
            *region_runs(bundles, "warpgroups-region", ["--chip=sm_90a", "--product=warpgroup"]),
            *dropout_runs(bundles, "warpgroups-dropout", ["--chip=sm_90a", "--product=warpgroup"]),
            *append_runs(bundles, "warpgroups-append", ["--chip=sm_90a", "--product=warpgroup"]),
            *block_runs(bundles, "warpgroups-blocks", ["--chip=sm_90a", "--product=warpgroup"]),
            *warpgroup_persistent_runs(bundles, batch=150), *far_grid.far_warpgroup_runs(bundles),
            *call_class_grid.call_class_runs(bundles, "sm_90a", CALLS)]


def emulate_grid(bundles):
    """Small runs of every dtype, head_dim class, mask and schedule, for the
    emulator: it checks every access, so one ragged size a kernel says a lot."""
    runs = []
    sizes = [(1, 1), (1, 203), (113, 64), (64, 113), (130, 3)]
    for dtype, d, causal in itertools.product(DTYPES, (16, 48, 64, 80, 128), CAUSAL):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for i, (sq, sk) in enumerate(sizes):
            runs.append({"bundle": bundle, "layout": ["bhsd", "bshd"][i % 2], "offset": 8 * (i % 2),
                         "kind": KINDS[i % 3], "dims": dims(1, 2, 1 + i % 2, sq, sk)})
    for i, d in enumerate(ODD_HEAD_DIMS):
        dtype, causal = DTYPES[i % 2], CAUSAL[i % 3]
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        for j, (sq, sk) in enumerate([(1, 70), (70, 33), (33, 70)]):
            runs.append(alternate(bundle, j, (1, 2, 1, sq, sk)))
    for d, dv in ((192, 128), (40, 72)):
        bundle = bundles.make(f"check-f16-d{d}-v{dv}", attention("f16", d, "none", head_dim_v=dv))
        runs.append({"bundle": bundle, "dims": dims(1, 2, 1, 70, 33)})
    sizes = [(70, 150), (1, 203), (130, 3), (90, 1), (130, 3), (1, 1), (64, 113), (33, 203)]
    runs += score_runs(bundles, sizes, batch=1, heads=2)
    runs += chip_runs(bundles, "sm_120", (64, 128, 256)) + chip_runs(bundles, "sm_121", (40,))
    runs += dropout_runs(bundles, "dropout")
    runs += block_runs(bundles, "blocks")
    runs += dropout_runs(bundles, "dropout-warpgroups", ["--chip=sm_90a", "--product=warpgroup"])
    runs += append_runs(bundles, "append")
    runs += append_runs(bundles, "append-warpgroups", ["--chip=sm_90a", "--product=warpgroup"])
    runs += block_runs(bundles, "blocks-warpgroups", ["--chip=sm_90a", "--product=warpgroup"])
    runs += packed_runs(bundles)
    runs += narrow_runs(bundles, [(70, 33), (1, 150), (3, 0)])
    runs += split_runs(bundles)
    runs += split_query_runs(bundles)
    # Schedules that no default takes.
    for i, (m, n, warps, stages, query) in enumerate([
            (16, 16, 1, 2, "registers"), (32, 16, 1, 5, "shared"), (64, 48, 2, 3, "registers"),
            (128, 32, 8, 4, "split"), (96, 112, 3, 2, "registers"), (256, 16, 8, 3, "shared")]):
        options = [f"--block-m={m}", f"--block-n={n}", f"--num-warps={warps}", f"--num-stages={stages}", f"--query={query}",
                   f"--grid-order={['query_fastest', 'head_fastest'][i % 2]}", f"--overlap={['none', 'qk'][i // 2 % 2]}",
                   f"--row-max={['exact', 'folded', 'exact', 'stale', 'exact', 'stale'][i]}",
                   f"--row-sum={['mma', 'add'][i // 3 % 2]}"]
        for causal in ("none", "bottom_right"):
            words = attention("f16", 64, causal, (1, 2, 2, 150, 170), lse=may_have_lse(options))
            bundle = bundles.make(f"emulate-{i}-{causal}", words, options)
            runs.append({"bundle": bundle})
        window = WINDOWS[i % len(WINDOWS)]
        words = attention("f16", 64, CAUSAL[i % 3], (1, 2, 2, 150, 170), window=window,
                         softcap=30 if i in (3, 5) else None, bias=None if i % 2 else ("f16", "11qk"), lse=may_have_lse(options))
        runs.append({"bundle": bundles.make(f"emulate-{i}-window", words, options), "kind": "rising"})
    runs += key_warps_runs(bundles, [(70, 150), (1, 203), (130, 3), (3, 90)])
    runs += persistent_runs(bundles, batch=2)
    runs += ladder_runs(bundles, seqlen=130)
    runs += unfused_runs(bundles)
    runs += region_runs(bundles, "region")
    runs += sequence_runs(bundles, "sequences")
    runs += scores_output_runs(bundles)
    runs += region_runs(bundles, "warpgroups-region", ["--chip=sm_90a", "--product=warpgroup"])
    runs += warpgroup_runs(bundles)
    runs += warpgroup_score_runs(bundles)
    runs += warpgroup_size_runs(bundles)
    runs += warpgroup_split_runs(bundles)
    runs += warpgroup_checked_runs(bundles)
    runs += warpgroup_bulk_runs(bundles, batch=3)
    runs += warpgroup_persistent_runs(bundles, batch=3)
    for chip in ("sm_89", "sm_90a"):
        runs += call_class_grid.call_class_runs(bundles, chip, [(1, 2, 1, 70, 150), (1, 1, 1, 33, 0)])
    # One key tile only, known at compile time: no loop is left.
    for i, (sk, causal) in enumerate([(16, "none"), (64, "none"), (40, "bottom_right"), (33, "top_left")]):
        bundle = bundles.make(f"emulate-one-tile-{i}", attention("f16", 64, causal, (1, 4, 2, 1100, sk)))
        runs.append({"bundle": bundle})
        bundle = bundles.make(f"emulate-one-tile-dynamic-{i}", attention("bf16", 128, causal, ("?", "?", "?", "?", sk)))
        runs.append({"bundle": bundle, "dims": {"batch": 2, "heads_q": 2, "heads_kv": 1, "seqlen_q": 70}})
    for bundle in ("check-f16-d64-none", "scores-none", "scores-bottom_right"):
        runs += stage_runs(f"{bundle}.fcb")
    return runs


def sanitize_grid(bundles):
    runs = []
    for dtype, d, causal in (("f16", 64, "none"), ("bf16", 128, "bottom_right"), ("f16", 80, "top_left")):
        bundle = bundles.make(f"check-{dtype}-d{d}-{causal}", attention(dtype, d, causal))
        runs.append({"bundle": bundle, "dims": dims(1, 2, 1, 113, 203)})
    bundle = bundles.make("scores-all", attention("f16", 72, window=(17, 33), softcap=30, bias=("f32", "bhqk")))
    runs.append({"bundle": bundle, "dims": dims(1, 2, 1, 113, 203), "kind": "rising"})
    runs.append({"bundle": bundles.make("split-d128", attention("f16", 128, "none", (1, 8, 2, 1, 1500)))})
    # Kernels of warpgroups where the chip has them: persistent ones, and one that is not.
    for d, causal, sk in ((64, "none", 256), (128, "bottom_right", 300), (64, "bottom_right", 1100)):
        words = attention("f16", d, causal, (16, 16, 8, 256, sk))
        runs.append({"bundle": bundles.make(f"sanitize-warpgroups-{d}-{causal}-{sk}", words, ["--chip=sm_80,sm_90a"])})
    return runs + sequence_runs(bundles, "sequences")


def time_grid(bundles):
    runs = []
    for causal in ("none", "bottom_right"):
        bundle = bundles.make(f"time-reference-{causal}", attention("f16", 64, causal, (1, 8, 8, 512, 512)))
        runs.append({"bundle": bundle, "time": True})
        for d in (64, 128):
            shape = (4, 2048 // d, 2048 // d, 4096, 4096)
            bundle = bundles.make(f"time-d{d}-{causal}", attention("f16", d, causal, shape))
            runs.append({"bundle": bundle, "time": True, "check": False})
            # The same with sizes and strides known at run time only.
            bundle = bundles.make(f"check-f16-d{d}-{causal}", attention("f16", d, causal))
            runs.append({"bundle": bundle, "dims": dims(*shape), "time": True, "check": False})
    # Other head dims, and features beside the same kernel without them.
    for d in (80, 96, 160, 192, 224, 256):
        runs.append(timed(bundles, f"d{d}", d, (4, 2048 // d, 2048 // d, 4096, 4096)))
    for d in (64, 128):
        runs.append(timed(bundles, f"d{d}-softcap", d, (4, 2048 // d, 2048 // d, 4096, 4096), softcap=30))
        runs.append(timed(bundles, f"d{d}-grouped", d, (4, 2048 // d, 512 // d, 4096, 4096)))
    long = (1, 16, 16, 16384, 16384)
    runs.append(timed(bundles, "d128-16k", 128, long))
    runs.append(timed(bundles, "d128-16k-window", 128, long, window=(1024, 0)))
    for name, batch, seqlen_k in (("decode-b1", 1, 8192), ("decode-b16", 16, 8192), ("decode-b1-64k", 1, 65536)):
        runs.append(timed(bundles, name, 128, (batch, 32, 8, 1, seqlen_k)))
    return runs


def mask_grid(bundles):
    """Masks as regions, at 16k tokens, with products of warps and of warpgroups."""
    runs = []
    for chip, seqlen, d in itertools.product(("sm_89", "sm_90a"), (4096, 16384), (64, 128)):
        for name, mask in MASKS.items():
            words = with_mask(attention("f16", d, shape=(16384 // seqlen, 2048 // d, 2048 // d, seqlen, seqlen), lse=False), mask)
            bundle = bundles.make(f"mask-{chip}-s{seqlen}-d{d}-{name}", words, [f"--chip={chip}"])
            runs.append({"bundle": bundle, "time": True, "check": False})
    return runs


def sequence_text(head_dim, causal, ends, sinks=False):
    """Sequences back to back, or with no `ends` a batch, of sizes known at run time only; 16 heads of 128."""
    heads = 2048 // head_dim
    tensor = f"tensor<{1 if ends else '?'}x{heads}x?x{head_dim}xf16>"
    clause = "cu_seqlens_q(%cq : tensor<?xi32>) cu_seqlens_k(%ck : tensor<?xi32>) " if ends else ""
    arguments = ", %cq: tensor<?xi32>, %ck: tensor<?xi32>" if ends else ""
    if sinks:
        clause = f"sink(%s : tensor<{heads}xf32>) " + clause
        arguments += f", %s: tensor<{heads}xf32>"
    return f"""func.func @attention(%q: {tensor}, %k: {tensor}, %v: {tensor}, %o: {tensor}{arguments}) -> {tensor} {{
  %r = flashcore.attention ins(%q, %k, %v : {tensor}, {tensor}, {tensor}) {clause}outs(%o : {tensor}){causal} -> {tensor}
  return %r : {tensor}
}}
"""


def sequence_grid(bundles):
    """Attentions whose lengths are data: that they are right, and what they cost beside equal lengths. 32 random cuts of 32,768 tokens make
    sequences of 1,024 in the mean and about four times that at most, which is the work of 16 of 2,048."""
    runs = sequence_runs(bundles, "sequences")
    for d, causal in itertools.product((64, 128), ("", " causal(bottom_right)")):
        name = f"{'causal' if causal else 'dense'}-d{d}"
        total = {"seqlen_q": 32768, "seqlen_k": 32768, "cu_seqlens": 33}
        runs.append({"bundle": bundles.make(f"time-varlen-{name}", sequence_text(d, causal, True)), "dims": total, "time": True, "check": False})
        for kind, sinks in (("equal", False), ("sinks", True)):
            runs.append({"bundle": bundles.make(f"time-{kind}-{name}", sequence_text(d, causal, False, sinks)),
                         "dims": {"batch": 16, "seqlen_q": 2048, "seqlen_k": 2048}, "time": True, "check": False})
    return runs


# Problems of less than a wave of blocks: name, head_dim, mask, sizes. And their
# schedules beside the default: warps that share query rows. (block-m, block-n,
# num-warps, key-warps, num-stages) and other options.
SMALL_PROBLEMS = [("reference", 64, "none", (1, 8, 8, 512, 512)), ("causal", 64, "bottom_right", (1, 8, 8, 512, 512)),
                  ("h12", 64, "none", (1, 12, 12, 128, 128)), ("h12-512", 64, "none", (1, 12, 12, 512, 512)),
                  ("long", 64, "none", (1, 1, 1, 4096, 4096)), ("d128", 128, "none", (1, 8, 8, 512, 512))]
SMALL_SCHEDULES = {
    64: [((32, 32, 4, 4, 2), ""), ((16, 32, 4, 4, 2), ""), ((16, 16, 4, 4, 5), ""), ((32, 16, 4, 4, 5), "--softmax=one_pass"),
         ((32, 16, 4, 4, 4), "--softmax=one_pass"), ((32, 16, 4, 4, 3), "--softmax=one_pass"),
         ((32, 32, 4, 4, 2), "--softmax=one_pass"), ((32, 32, 4, 4, 2), "--softmax=one_pass --row-sum=mma"),
         ((16, 16, 4, 4, 5), "--softmax=one_pass"), ((16, 32, 4, 4, 2), "--softmax=one_pass"),
         ((16, 32, 4, 4, 2), "--softmax=one_pass --row-sum=mma"), ((16, 32, 2, 2, 4), "--softmax=one_pass")],
    128: [((32, 32, 2, 2, 2), ""), ((16, 16, 4, 4, 2), ""), ((32, 16, 4, 4, 2), ""), ((16, 32, 2, 2, 2), ""),
          ((16, 16, 4, 4, 2), "--softmax=one_pass"), ((32, 16, 4, 4, 2), "--softmax=one_pass")]}


def small_grid(bundles):
    runs = []
    for name, d, causal, shape in SMALL_PROBLEMS:
        words = attention("f16", d, causal, shape, lse=False)
        runs.append({"bundle": bundles.make(f"small-{name}-default", words), "time": True})
        for sizes, more in SMALL_SCHEDULES[d]:
            if name == "long" and more:
                continue  # too many keys for one pass
            tag = "-".join(map(str, sizes)) + more.replace("--", "-").replace(" ", "").replace("=", "-")
            runs.append({"bundle": bundles.make(f"small-{name}-{tag}", words, schedule_options(*sizes) + more.split()), "time": True})
    return runs


def timed(bundles, name, head_dim, shape, **features):
    bundle = bundles.make(f"time-{name}", attention("f16", head_dim, shape=shape, **features))
    return {"bundle": bundle, "time": True, "check": False}


def card_grid(bundles):
    """Static shapes for scripts/compare-with-card.py and compare-counters.py."""
    runs = []
    for dtype, d, causal, shape in (
            ("f16", 64, "none", (1, 2, 2, 256, 256)), ("f16", 64, "bottom_right", (1, 2, 2, 256, 256)),
            ("f16", 128, "none", (1, 2, 1, 192, 256)), ("f16", 128, "bottom_right", (1, 1, 1, 256, 256)),
            ("f16", 80, "top_left", (1, 2, 2, 200, 300)), ("f16", 16, "none", (1, 2, 2, 100, 203)),
            ("bf16", 64, "none", (1, 2, 2, 256, 256)), ("bf16", 96, "bottom_right", (1, 2, 1, 130, 170))):
        runs.append({"bundle": bundles.make(f"card-{dtype}-d{d}-{causal}", attention(dtype, d, causal, shape))})
    return runs


def far_grid_of(bundles, is_whole=False):
    return far_grid.far_runs(bundles, is_whole) + far_grid.far_warpgroup_runs(bundles, is_whole)


GRIDS = {"check": check_grid, "warpgroups": warpgroup_grid, "sanitize": sanitize_grid, "time": time_grid, "emulate": emulate_grid, "card": card_grid,
         "small": small_grid, "masks": mask_grid, "sequences": sequence_grid, "chips": chip_grid, "far": far_grid_of, "far-whole": lambda bundles: far_grid_of(bundles, True)}
