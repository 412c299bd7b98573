#!/usr/bin/env python3
"""Compiles and runs random functions of several ops, and compares them with the reference.

A function is drawn from the seed and its number alone: appends to caches, attentions
on whole caches and on parts of them, merges of those parts, attentions on what others
have left, and deltas, on tensors whose batch or query rows may be open. All of it is
legal, so every function must compile to one bundle, which must run on the device
without a finding and give the right results. Anything else is reported with the
command that repeats it, and the exit code is 1.

A comparison that fails is repeated with other inputs, as in fuzz-configurations.py.
"""
import collections
import json
import pathlib
import random
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compiler_lists
from fuzz_commands import RETRIES, Problem, execute, make_parser

MAX_STEPS = 3
MANY_ROWS = 64


def memref(shape, element, strides=None, offset=0):
    """The text of a type; None is a size, a stride or an offset that is open."""
    text = lambda number: "?" if number is None else str(number)
    layout = ""
    if strides:
        layout = f", strided<[{', '.join(map(text, strides))}]" + (f", offset: {text(offset)}>" if offset != 0 else ">")
    return f"memref<{'x'.join([*map(text, shape), element])}{layout}>"


def product(sizes):
    """None if one of them is open."""
    result = 1
    for size in sizes:
        result = None if result is None or size is None else result * size
    return result


class Program:
    """The text of a function, step by step."""

    def __init__(self, rng):
        self.rng = rng
        self.element = rng.choice(["f16", "bf16"])
        self.dim = rng.choice([16, 32, 40, 64, 64, 80, 128, 20, 7])
        self.heads_kv = rng.choice([1, 2, 3])
        self.heads = self.heads_kv * rng.choice([1, 1, 2, 4])
        self.sizes = {"batch": rng.choice([1, 2, 3]), "seqlen_q": rng.choice([1, 1, 2, 5, 16, 33, 70])}
        self.open = {name for name in self.sizes if self.chance(25)}
        self.arguments, self.body, self.kinds = [], [], []
        self.numbers = collections.Counter()

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def name(self, stem):
        self.numbers[stem] += 1
        return f"%{stem}{self.numbers[stem]}"

    def size(self, name):
        return None if name in self.open else self.sizes[name]

    def argument(self, stem, kind):
        self.arguments.append((self.name(stem), kind))
        return self.arguments[-1]

    def row_shape(self):
        """That of query and output."""
        return [self.size("batch"), self.heads, self.size("seqlen_q"), self.dim]

    def rows(self):
        return memref(self.row_shape(), self.element)

    def lse(self):
        return memref(self.row_shape()[:3], "f32")

    def lengths(self):
        return memref([self.size("batch")], "i32")

    def measure(self, value, kind, axes):
        """The sizes of some axes of `value`."""
        sizes = []
        for axis in axes:
            constant, size = self.name("axis"), self.name("size")
            self.body += [f"{constant} = arith.constant {axis} : index", f"{size} = memref.dim {value}, {constant} : {kind}"]
            sizes.append(size)
        return sizes

    def allocate(self, stem, shape, element, like):
        """Of a shape whose open axes are those of `like`, a tensor of rows, one axis on for each that is in front."""
        kind, name = memref(shape, element), self.name(stem)
        front = len(shape) - (4 if shape[-1] == self.dim and len(shape) >= 4 else 3)
        sizes = self.measure(*like, [axis - front for axis, size in enumerate(shape) if size is None])
        self.body.append(f"{name} = memref.alloc({', '.join(sizes)}) : {kind}")
        return name, kind

    def place(self, query, is_last=False):
        """Where rows go: a tensor of the caller, or one that only the program sees."""
        if is_last or self.chance(40):
            return self.argument("o", self.rows())
        return self.allocate("o", self.row_shape(), self.element, query)

    def cache(self):
        keys = self.rng.choice([32, 64, 96, 192])
        shape = [self.size("batch"), self.heads_kv, keys, self.dim]
        kind = memref(shape, self.element)
        return self.argument("k", kind), self.argument("v", kind), shape

    def is_read(self, cache):
        """Whether an attention has seen it: what flashcore-run gives keys that an append is to write is no number."""
        return any(cache[0][0] + "," in line or cache[0][0] + "[" in line for line in self.body)

    def view(self, tensor, shape, begin, keys):
        """Keys of a cache."""
        (name, kind), part = tensor, self.name("part")
        strides = [product(shape[axis + 1:]) for axis in range(4)]
        size = self.measure(name, kind, [0])[0] if shape[0] is None else shape[0]
        of_part = memref([shape[0], shape[1], keys, shape[3]], self.element, strides, begin * shape[3])
        self.body.append(f"{part} = memref.subview {name}[0, 0, {begin}, 0] [{size}, {shape[1]}, {keys}, {shape[3]}] [1, 1, 1, 1] : {kind} to {of_part}")
        return part, of_part

    def view_part(self, tensor, shape, number):
        """One part of the outputs or LSEs of parts."""
        (name, kind), part = tensor, self.name("part")
        open_axes = [axis for axis, size in enumerate(shape) if size is None]
        measured = dict(zip(open_axes, self.measure(name, kind, open_axes)))
        sizes = [1, *(measured.get(axis, shape[axis]) for axis in range(1, len(shape)))]
        strides = [product(shape[axis + 1:]) for axis in range(len(shape))]
        offset = 0 if number == 0 else None if strides[0] is None else number * strides[0]
        element = kind[:-1].rpartition("x")[2]
        of_part = memref(shape[1:], element, strides[1:], offset)
        begins = ", ".join([str(number), *["0"] * (len(shape) - 1)])
        self.body.append(f"{part} = memref.subview {name}[{begins}] [{', '.join(map(str, sizes))}] [{', '.join(['1'] * len(shape))}] : {kind} to {of_part}")
        return part, of_part

    def attention(self, query, key, value, output, lse=None):
        self.kinds.append("attention")
        clauses = [f"ins({query[0]}, {key[0]}, {value[0]} : {query[1]}, {key[1]}, {value[1]})"]
        if self.chance(40):
            clauses.append("seqused_k({} : {})".format(*self.argument("used", self.lengths())))
        if self.chance(15):
            clauses.append("head_scale({} : {})".format(*self.argument("scales", memref([self.heads], "f32"))))
        for clause, stem in (("alibi", "slopes"), ("sink", "logits")):
            if self.chance(10):
                clauses.append("{}({} : {})".format(clause, *self.argument(stem, memref([self.heads], "f32"))))
        clauses.append(f"outs({output[0]} : {output[1]})")
        if lse:
            clauses.append(f"lse({lse[0]} : {lse[1]})")
        if self.chance(30):
            clauses.append(f"causal({self.rng.choice(['bottom_right', 'top_left'])})")
        if self.chance(20):
            clauses.append(f"window_left({self.rng.randint(0, 70)})")
        if self.chance(15):
            clauses.append(f"softcap({self.rng.choice(['2.0', '30.0'])})")
        self.body.append("flashcore.attention " + " ".join(clauses))

    def append(self, query, cache):
        """Rows behind the keys of a cache; with rotary the query may be turned, too, and is what later ops have."""
        self.kinds.append("append")
        key, value, _ = cache
        new = memref([self.size("batch"), self.heads_kv, self.rng.choice([1, 2, 17]), self.dim], self.element)
        k_new, v_new = self.argument("k_new", new), self.argument("v_new", new)
        used = self.argument("length", self.lengths())
        text = f"flashcore.append ins({k_new[0]}, {v_new[0]} : {new}, {new}) seqused_k({used[0]} : {used[1]})"
        turned = None
        if self.dim % 2 == 0 and self.chance(50):
            angles = memref([256, self.rng.choice([self.dim // 2, 2])], self.element)
            cos, sin = self.argument("cos", angles), self.argument("sin", angles)
            text += f" rotary({cos[0]}, {sin[0]} : {angles}, {angles}) style({self.rng.choice(['half', 'interleaved'])})"
            if self.chance(60):
                turned = self.allocate("turned", self.row_shape(), self.element, query)
                text += f" query({query[0]} : {query[1]})"
        text += f" outs({key[0]}, {value[0]} : {key[1]}, {value[1]})"
        if turned:
            text += f" turned({turned[0]} : {turned[1]})"
        self.body.append(text)
        return turned or query

    def parts(self, query, cache):
        """Attentions on parts of the keys, each with results of its own, and their merge."""
        key, value, shape = cache
        count = self.rng.choice([2, 2, 3])
        ends = sorted(self.rng.sample(range(1, shape[2]), count - 1)) + [shape[2]]
        outputs_shape, lses_shape = [count, *self.row_shape()], [count, *self.row_shape()[:3]]
        outputs = self.allocate("outputs", outputs_shape, self.element, query)
        lses = self.allocate("lses", lses_shape, "f32", query)
        begin = 0
        for number, end in enumerate(ends):
            self.attention(query, self.view(key, shape, begin, end - begin), self.view(value, shape, begin, end - begin),
                           self.view_part(outputs, outputs_shape, number), self.view_part(lses, lses_shape, number))
            begin = end
        self.kinds.append("merge")
        output = self.place(query)
        text = f"flashcore.merge ins({outputs[0]}, {lses[0]} : {outputs[1]}, {lses[1]}) outs({output[0]} : {output[1]})"
        if lse := self.final_lse():
            text += f" lse({lse[0]} : {lse[1]})"
        self.body.append(text)
        return output

    def whole(self, query, cache, is_last=False):
        output = self.place(query, is_last)
        self.attention(query, cache[0], cache[1], output, self.final_lse())
        return output

    def has_many_rows(self):
        """Whether the errors of one number a row say what errors are like."""
        return self.sizes["batch"] * self.heads * self.sizes["seqlen_q"] >= MANY_ROWS

    def final_lse(self):
        """That of an op, for the caller, or none."""
        return self.argument("lse", self.lse()) if self.has_many_rows() and self.chance(40) else None

    def delta(self, output):
        self.kinds.append("delta")
        gradient, delta = self.argument("do", self.rows()), self.argument("delta", self.lse())
        self.body.append(f"flashcore.delta ins({gradient[0]}, {output[0]} : {gradient[1]}, {output[1]}) outs({delta[0]} : {delta[1]})")

    def draw(self):
        """Itself, with all of its steps."""
        query = self.argument("q", self.rows())
        caches = [self.cache() for _ in range(self.rng.choice([1, 1, 2]))]
        output = None
        while len(self.kinds) < 2 or (len(self.kinds) < MAX_STEPS and self.chance(60)):
            cache = self.rng.choice(caches)
            if self.chance(35) and not self.is_read(cache):
                query = self.append(query, cache)
            source = output if output and self.chance(40) else query
            output = (self.parts if self.chance(45) else self.whole)(source, cache)
            if self.has_many_rows() and self.chance(30):
                self.delta(output)
        # Nothing is computed that nobody sees.
        if output not in self.arguments:
            if self.has_many_rows():
                self.delta(output)
            else:
                self.whole(output, self.rng.choice(caches), is_last=True)
        return self

    def text(self):
        arguments = ", ".join(f"{name}: {kind}" for name, kind in self.arguments)
        return f"func.func @program({arguments}) {{\n  " + "\n  ".join(self.body) + "\n  return\n}\n"


class Generator:
    """What the number-th function of a seed is, and how it is compiled and run."""

    def __init__(self, seed, index, chips):
        self.rng = random.Random(f"{seed}:{index}:program")
        self.program = Program(self.rng).draw()
        self.options = [f"--chip={self.rng.choice(chips)}"]
        if "seqlen_q" in self.program.open and self.program.chance(30):
            self.options.append("--few-queries=16")
        self.seed = self.rng.randrange(1 << 30)
        number = self.rng.randrange(1000)
        self.emulation = [f"--emu-schedule={self.rng.choice(['seq', 'skew', f'random:{number}'])}",
                          f"--emu-async={self.rng.choice(['lazy', 'eager', f'random:{number}'])}"]


def open_sizes(bundle, program):
    """--dim of each size that the bundle leaves open. Names are those of the first op that has it, with a number where another has the name."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    for name, size in manifest["sizes"].items():
        if size is not None:
            continue
        known = next((value for stem, value in program.sizes.items() if name == stem or name.startswith(f"{stem}_")), None)
        if known is None:
            raise Problem("size", f"expects open sizes like {' and '.join(program.sizes)}, but got '{name}'")
        yield f"--dim={name}={known}"


class Fuzzer:
    def __init__(self, compiler, runner, device, folder):
        self.compiler, self.runner, self.device, self.folder = compiler, runner, device, pathlib.Path(folder)
        self.counts = collections.Counter()

    def compile(self, drawn):
        bundle = self.folder / "program.fcb"
        command = [self.compiler, "-", "--emit=bundle", "--no-cubin", "-o", str(bundle), *drawn.options]
        result = execute(command, input=drawn.program.text())
        if result.returncode != 0:
            raise Problem("refusal", f"expects kernels, but got\n{result.stderr}")
        return bundle

    def passes(self, drawn, bundle, seed):
        """Whether a run is right. A finding is a Problem."""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        command = [self.runner, str(bundle), f"--device={self.device}", f"--seed={seed}", f"--json={out}", *open_sizes(bundle, drawn.program)]
        result = execute([*command, *(drawn.emulation if self.device == "emulator" else [])])
        results = json.loads(out.read_text()) if out.exists() else []
        if len(results) != 1:
            raise Problem("run", f"expects a result, but got {len(results)}\n{result.stdout}{result.stderr}")
        if "error" in results[0]:
            raise Problem("finding" if results[0]["result"] == "FAIL" else "run", results[0]["error"])
        self.last = result.stdout
        return results[0]["result"] == "PASS"

    def check(self, drawn):
        bundle = self.compile(drawn)
        self.counts.update(drawn.program.kinds)
        if self.passes(drawn, bundle, drawn.seed):
            return
        if all(self.passes(drawn, bundle, drawn.seed + 1 + i) for i in range(RETRIES)):
            self.counts["failed once, then passed"] += 1
            return
        raise Problem("comparison", f"results differ from the reference\n{self.last}")

    def report(self, drawn, again):
        """Whether the function is fine; else says what is not, and the command `again` that repeats it."""
        self.counts["functions"] += 1
        try:
            self.check(drawn)
            return True
        except Problem as problem:
            self.counts[problem.kind] += 1
            print(f"{problem.kind.upper()}: {problem}\n{drawn.program.text()}  {again}", flush=True)
            return False


def parse_arguments():
    parser = make_parser(__doc__, "functions")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with this number")
    return parser.parse_args()


def main():
    args = parse_arguments()
    seed = args.seed if args.seed is not None else int(time.time())
    end = time.monotonic() + 60 * args.minutes
    passed, index = True, args.first
    chips = compiler_lists.list_chips(args.compiler)
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(str(args.compiler), str(args.runner), args.device, folder)
        try:
            while index < args.first + args.count if args.count is not None else time.monotonic() < end:
                drawn = Generator(seed, index, chips)
                if args.print:
                    print(drawn.program.text())
                else:
                    passed &= fuzzer.report(drawn, f"scripts/fuzz-programs.py --device {args.device} --seed {seed} --first {index} --count 1")
                index += 1
        except (ValueError, OSError) as error:
            print(f"fuzz-programs: {error}", file=sys.stderr)
            return 2
    if not args.print:
        print(f"seed {seed}: " + ", ".join(f"{count} {name}" for name, count in fuzzer.counts.items()))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
