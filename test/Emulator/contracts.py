"""What each default kernel costs, compared with what is on record.

usage: contracts.py [--update] [--static] COMPILER EMULATOR WORK_DIR

Runs every default schedule on the emulator, each form of the kernels of
warpgroups, some features and some rungs of the ladder, and compares its counters with contracts.json: any change fails, for
better or worse, until --update records it. Two things hold for every default
whatever the record says: the loops over key tiles have no bank conflict and no
uncoalesced access, and in one of them a full tile takes no mask code. --static
compares what ptxas says instead: registers, spills.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import emulation
import ptx

SHAPES = {"large": None, "lse": None, "small": (1, 1, 1, 64, 384),
          "decode": (1, 4, 1, 1, 1024)}


@dataclasses.dataclass
class Problem:
    """One default kernel: sizes known at run time only choose the schedule for
    large problems, small static ones that for grids that leave SMs idle, and
    few rows over many keys that of decoding. One has an LSE, whose sums are
    never those of a product."""
    dtype: str
    head_dim: int
    causal: str
    kind: str  # of SHAPES
    chip: str = ""  # that of the module by default, sm_89

    @property
    def name(self):
        return "-".join([*filter(None, [self.chip]), self.dtype,
                         f"d{self.head_dim}", self.causal, self.kind])

    def compile(self, args, assemble):
        shape = SHAPES[self.kind]
        causal = "none" if self.causal == "dense" else "bottom_right"
        source = emulation.attention(self.dtype, self.head_dim, causal, shape,
                                   lse=self.kind == "lse")
        dims = dict(batch=1, heads_q=1, heads_kv=1, seqlen_q=128, seqlen_k=256)
        return emulation.compile_launch(args.compiler, args.work_dir,
                                        self.name, source,
                                        [f"--chip={self.chip or 'sm_89'}"],
                                        dims={} if shape else dims,
                                        assemble=assemble)


@dataclasses.dataclass
class Form:
    """A form of kernels of warpgroups, in small. Their loops over key tiles
    access no memory: bulk copies and products do."""
    name: str
    head_dim: int
    causal: str
    shape: tuple
    options: str

    def compile(self, args, assemble):
        source = emulation.attention("f16", self.head_dim, self.causal,
                                   self.shape,
                                   lse=emulation.may_have_lse(self.options))
        return emulation.compile_launch(
            args.compiler, args.work_dir, self.name, source,
            ["--chip=sm_90a", "--product=warpgroup", *self.options.split()],
            assemble=assemble)


_TWO = "--num-warps=8 --block-m=128 --block-n=128 --overlap=pv"
_FOUR = "--num-warps=16 --block-m=256"
FORMS = [
    Form("sm_90a-exact", 128, "none", (1, 2, 1, 128, 512),
         f"{_TWO} --row-max=exact --row-sum=add --grid=full"),
    Form("sm_90a-stale", 128, "none", (1, 2, 1, 128, 512),
         f"{_TWO} --row-max=stale --row-sum=add --grid=full"),
    Form("sm_90a-ones", 128, "none", (1, 2, 1, 128, 512),
         f"{_TWO} --row-max=stale --row-sum=mma --grid=full"),
    Form("sm_90a-checked", 64, "none", (1, 2, 1, 256, 480),
         f"{_FOUR} --block-n=80 --overlap=none --row-max=checked "
         "--row-sum=mma --grid=full"),
    Form("sm_90a-persistent", 64, "none", (1, 4, 1, 256, 256),
         f"{_FOUR} --block-n=64 --overlap=none --row-max=checked "
         "--row-sum=mma --grid=persistent"),
    # Longest first, heads in turns, walks of each warpgroup's own.
    Form("sm_90a-causal", 64, "bottom_right", (1, 4, 2, 512, 512),
         f"{_FOUR} --block-n=64 --overlap=pv --row-max=checked --row-sum=mma "
         "--grid=full --grid-order=head_fastest --grid-heads=2"),
    Form("sm_90a-two-blocks", 64, "bottom_right", (1, 4, 2, 512, 512),
         "--num-warps=8 --block-m=128 --block-n=64 --min-blocks=2 "
         "--overlap=none --row-max=checked --row-sum=mma --grid=full "
         "--grid-order=head_fastest --grid-heads=2"),
    Form("sm_90a-three", 128, "bottom_right", (1, 2, 1, 384, 384),
         "--num-warps=12 --block-m=192 --block-n=64 --overlap=pv "
         "--row-max=stale --row-sum=mma --grid=full"),
    Form("sm_90a-splits", 128, "none", (1, 4, 2, 64, 1024),
         "--num-warps=8 --block-m=64 --block-n=128 --head-group=2 "
         "--key-splits=2 --overlap=pv --row-max=stale --row-sum=mma "
         "--grid=full"),
]


@dataclasses.dataclass
class Feature:
    """The default kernel of an attention in a file of the tests: what regions
    compute for every score, and where pages are found."""
    file: str
    dims: tuple = ()

    @property
    def name(self):
        return self.file.replace("/", "-").lower()

    def compile(self, args, assemble):
        path = pathlib.Path(__file__).parent.parent / f"{self.file}.mlir"
        return emulation.compile_launch(args.compiler, args.work_dir,
                                        self.name, path.read_text(),
                                        dims=self.dims, assemble=assemble)


FEATURES = [Feature(f"Masks/{name}") for name in (
    "alibi", "alibi-clause", "dilated", "global-local", "head-scale",
    "retrieved-chunks",
    "soft-mask", "softcap", "swin-bias", "t5-bias")]
FEATURES.append(Feature("Sequences/paged-whole", (("pages", 10),)))
FEATURES += [Feature("Sequences/scores"), Feature("Integration/dropout")]


@dataclasses.dataclass
class Rung:
    """A schedule that has a name, on its way to the default one. That of plain
    rows has bank conflicts, which are on record as all the rest is."""
    schedule: str

    @property
    def name(self):
        return f"ladder-{self.schedule.removeprefix('+')}"

    def compile(self, args, assemble):
        source = emulation.attention("f16", 64, "none", (1, 2, 1, 64, 256))
        return emulation.compile_launch(args.compiler, args.work_dir,
                                        self.name, source,
                                        [f"--schedule={self.schedule}"],
                                        assemble=assemble)


RUNGS = [Rung("scalar"), Rung("fused-wmma-32x32"), Rung("+swizzle")]


def problems():
    for point in itertools.product(("f16", "bf16"), (16, 32, 64, 96, 128),
                                   ("dense", "causal")):
        yield Problem(*point, "large")
    yield from itertools.starmap(Problem, itertools.product(
        ("f16",), (64, 128), ("dense", "causal"), ("small", "decode", "lse")))
    yield Problem("f16", 128, "causal", "large", "sm_120")
    yield from FORMS
    yield from FEATURES
    yield from RUNGS


def emulate(emulator, launch):
    """The counters of one run, which must be clean."""
    result = subprocess.run([emulator, str(launch.ptx), *launch.options,
                             "--stats", "json"],
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{launch.name}: {result.stdout}{result.stderr}")
    return json.loads(result.stdout)["counters"]


def is_product(statement):
    return statement.opcode.startswith("mma.")


def mask_code(loop):
    """First lines of selections of values by a comparison of rows and keys. One of two numbers
    is no value but the size or the slot of a copy, and a row maximum of -inf is
    compared as a float."""
    masks, lines = set(), []
    for s in loop:
        if re.match(r"setp\.\w+\.[subu]\d", s.opcode):
            masks.add(s.operands[0])
        elif s.opcode in ("and.pred", "or.pred", "xor.pred", "not.pred"):
            if masks.intersection(s.operands[1:]):
                masks.add(s.operands[0])
        elif s.opcode.startswith("selp.") and s.operands[3] in masks:
            is_value = any(x.startswith("%") for x in s.operands[1:3])
            if s.opcode in ("selp.f32", "selp.b32") and is_value:
                lines.append(s.first)
    return lines


@dataclasses.dataclass
class TileLoop:
    """A loop over key tiles."""
    line: int
    statements: list
    tile: list  # the statements that a tile takes: one that need not be masked,
    # whose maximum need not be followed, if that is a branch of its own
    mask_code: int  # selections among them

    def executed(self, opcode, counters):
        """How often instructions of a tile ran; counters know those that access
        memory."""
        lines = {c["line"]: c["executed"] for c in counters["lines"]}
        return sum(lines.get(s.first + 1, 0) for s in self.tile
                   if s.opcode.startswith(opcode))

    def count(self, opcode=""):
        return sum(s.opcode.startswith(opcode) for s in self.tile)


def tile_loops(lines):
    loops = ptx.loops(lines)
    masks = {line for loop in loops for line in mask_code(loop)}
    # All products, of these ways the one with the least mask code, of these
    # the shortest.
    tiles = ptx.iterations(
        lines, lambda s: (is_product(s), -(s.first in masks), -1))
    return [TileLoop(loop[0].first + 1, loop, tile,
                     sum(s.first in masks for s in tile))
            for loop, tile in zip(loops, tiles) if any(map(is_product, loop))]


def unrolled_tiles(lines):
    """All up to the last product, where one pass over the key tiles leaves no
    loop over them: it counts as one."""
    statements = ptx.statements(lines)
    last = max(i for i, s in enumerate(statements) if is_product(s))
    region = statements[:last + 1]
    return TileLoop(region[0].first + 1, region, region,
                    len(mask_code(region)))


def excess_in_loops(launch, loops, counters):
    """Lines of the loops that need more wavefronts or sectors than their
    bytes."""
    inside = {s.first + 1 for loop in loops for s in loop.statements}
    for line in counters["lines"]:
        if line["line"] not in inside:
            continue
        for counter in ("shared_wavefronts", "global_sectors"):
            ideal = line[f"{counter}_ideal"]
            if line[counter] > ideal:
                yield (f"{launch.name}: {launch.ptx}:{line['line']}: expects "
                       f"{ideal} {counter} in a loop over key tiles, but got "
                       f"{line[counter]}")


def check_loops(launch, loops, counters):
    """What holds for every kernel."""
    yield from excess_in_loops(launch, loops, counters)
    if min(loop.mask_code for loop in loops):
        yield (f"{launch.name}: expects a loop over key tiles in which a full "
               "tile takes no mask code, but got " +
               ", ".join(f"{loop.mask_code} selections in the one at line "
                         f"{loop.line}" for loop in loops))


def measure(problem, args):
    """Record of one kernel and what is wrong with it whatever the record."""
    launch = problem.compile(args, assemble=False)
    counters = emulate(args.emulator, launch)
    record = {key: counters[key] for key in
              ("shared_wavefronts", "shared_wavefronts_ideal",
               "global_sectors", "global_sectors_ideal", "mma",
               "warp_instructions")}
    record |= {f"{name} instructions": count
               for name, count in counters["classes"].items() if count}
    if isinstance(problem, (Form, Feature, Rung)):
        return record, []
    lines = launch.ptx.read_text().splitlines()
    loops = tile_loops(lines) or [unrolled_tiles(lines)]
    full = [loop for loop in loops if not loop.mask_code]
    record["ldmatrix in loops with full tiles"] = sum(
        loop.executed("ldmatrix.", counters) for loop in full)
    for opcode in ("", "setp.", "selp."):
        record[f"{opcode or 'instructions'} of a full tile"] = sum(
            loop.count(opcode) for loop in full)
    return record, list(check_loops(launch, loops, counters))


def assemble(problem, args):
    """What ptxas says of one kernel."""
    launch = problem.compile(args, assemble=True)
    bundle = emulation.Bundle(launch.ptx.parent)
    kernel = bundle.kernels[0]
    record = {"assembler": bundle.assembler,
              "registers": kernel.resources.registers,
              "shared memory": kernel.shared_memory}
    spills = sum(k.resources.spills for k in bundle.kernels)
    return record, [f"{problem.name}: expects no spills, but got {spills} "
                    "bytes"] if spills else []


def compare(name, recorded, got):
    """Lines that say what differs. Registers depend on the version of ptxas."""
    assembler = recorded.get("assembler"), got.get("assembler")
    if None not in assembler and assembler[0] != assembler[1]:
        print(f"{name}: not compared, recorded with {assembler[0]}, but this "
              f"is {assembler[1]}")
        return
    for counter in sorted((recorded.keys() | got.keys()) - {"assembler"}):
        old, new = recorded.get(counter, 0), got.get(counter, 0)
        if old == new:
            continue
        change = f" ({100 * (new - old) / old:+.1f} %)" if old else ""
        yield f"{name}: {counter}: {old} -> {new}{change}"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("compiler")
    parser.add_argument("emulator")
    parser.add_argument("work_dir", type=pathlib.Path)
    parser.add_argument("--update", action="store_true",
                        help="write the record")
    parser.add_argument("--static", action="store_true",
                        help="compare what ptxas says")
    parser.add_argument("--kernel", help="only this one")
    parser.add_argument("--record", type=pathlib.Path, help="another record",
                        default=pathlib.Path(__file__).parent /
                        "contracts.json")
    return parser.parse_args()


def main():
    args = parse_arguments()
    args.work_dir.mkdir(parents=True, exist_ok=True)
    section = "static" if args.static else "dynamic"
    record = json.loads(args.record.read_text())
    todo = [p for p in problems() if args.kernel in (None, p.name)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        function = assemble if args.static else measure
        results = list(pool.map(lambda p: function(p, args), todo))
    got = {p.name: r for p, (r, _) in zip(todo, results)}
    wrong = [text for _, texts in results for text in texts]
    if args.update:
        # With all kernels, those that are no more go as well.
        kept = record.get(section, {}) if args.kernel else {}
        record[section] = {**kept, **got}
        args.record.write_text(
            json.dumps(record, indent=1, sort_keys=True) + "\n")
    recorded = record.get(section, {})
    names = got if args.kernel else got.keys() | recorded.keys()
    changes = [change for name in sorted(names)
               for change in compare(name, recorded.get(name, {}),
                                     got.get(name, {}))]
    for text in wrong + changes:
        print(text)
    if changes:
        print("if this is meant, record it: "
              f"{' '.join([sys.executable, *sys.argv])} --update")
    print(f"{len(got)} kernels, {len(wrong)} broken contracts, "
          f"{len(changes)} changes")
    return 1 if wrong or changes else 0


if __name__ == "__main__":
    sys.exit(main())
