# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync of the corpus: each launch is one shape and type, each result one
class of inputs, which wmma.py has too. A warp computes one product; the fragments of all warps lie as
[warp][register][lane]."""
import dataclasses
import functools
import itertools
import operator

from launch import Drawn, Launch, Result
from values import BF16, F16, F32, FloatFormat, any_int, below, generator

ROWS, COLUMNS, LANES = 16, 8, 32
PRODUCTS = 64  # of one class
WARPS = 4      # of a CTA

E4M3, E5M2 = FloatFormat("e4m3", 4, 3), FloatFormat("e5m2", 5, 2)
TF32 = FloatFormat("tf32", 8, 23)  # in a register of 32 bits, of which the low 13 do not count


@dataclasses.dataclass(frozen=True)
class IntFormat:
    name: str
    width: int


S8, U8, S32 = IntFormat("s8", 8), IntFormat("u8", 8), IntFormat("s32", 32)


@dataclasses.dataclass(frozen=True)
class MmaShape:
    rows = ROWS
    columns = COLUMNS
    depth: int
    a: object  # a FloatFormat or IntFormat
    b: object
    c: object = F32  # of the accumulators
    saturates: bool = False

    def opcode(self):
        saturate = ".satfinite" if self.saturates else ""
        return (f"mma.sync.aligned.m16n8k{self.depth}.row.col{saturate}.{self.c.name}.{self.a.name}.{self.b.name}"
                f".{self.c.name}")

    def name(self):
        suffix = "_satfinite" if self.saturates else "_f16_accumulators" if self.c is F16 else ""
        return f"mma_m16n8k{self.depth}_{self.a.name}_{self.b.name}{suffix}"

    def example(self, launch, index):
        return example(launch, index)

    def register_type(self):
        """Of an accumulator."""
        return "f32" if self.c is F32 else "b32"

    def result_type(self):
        return {"f32": "f32", "f16": "f16x2", "s32": "s32"}[self.c.name]

    def per_accumulator(self):
        return 32 // self.c.width

    def c_registers(self):
        return ROWS * COLUMNS // LANES // self.per_accumulator()

    def c_place(self, register, lane, i):
        """Row and column of element i of an accumulator."""
        element = register * self.per_accumulator() + i
        return lane // 4 + 8 * (element >> 1), lane % 4 * 2 + (element & 1)

    def per_register(self):
        return 32 // self.a.width

    def a_registers(self):
        return ROWS * self.depth // LANES // self.per_register()

    def b_registers(self):
        return COLUMNS * self.depth // LANES // self.per_register()

    def a_place(self, register, lane, i):
        """Row and k of element i of a register of A."""
        n = self.per_register()
        return lane // 4 + 8 * (register & 1), lane % 4 * n + i + (register >> 1) * 4 * n

    def b_place(self, register, lane, i):
        """k and column of element i of a register of B."""
        n = self.per_register()
        return lane % 4 * n + i + register * 4 * n, lane // 4


SHAPES = [MmaShape(16, F16, F16), MmaShape(16, BF16, BF16), MmaShape(8, F16, F16), MmaShape(8, BF16, BF16),
          MmaShape(32, E4M3, E4M3), MmaShape(32, E5M2, E5M2), MmaShape(32, E4M3, E5M2),
          MmaShape(16, F16, F16, F16), MmaShape(8, F16, F16, F16), MmaShape(8, TF32, TF32), MmaShape(4, TF32, TF32),
          *(MmaShape(depth, a, b, c) for a, b in ((E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2))
            for depth, c in ((32, F16), (16, F32), (16, F16))),
          *(MmaShape(depth, a, b, S32, saturates) for saturates in (False, True) for depth in (16, 32)
            for a in (S8, U8) for b in (S8, U8))]


def is_wide(fmt):
    """Whether the format has the exponents of f32, so that products overflow."""
    return fmt.exponent_bits == F32.exponent_bits


# Classes of inputs: functions of (rng, shape) that give A by rows, B by rows
# of k, and C by rows.


def matrices(shape, a, b, c):
    return ([[a() for _ in range(shape.depth)] for _ in range(shape.rows)],
            [[b() for _ in range(shape.columns)] for _ in range(shape.depth)],
            [[c() for _ in range(shape.columns)] for _ in range(shape.rows)])


def spread(shift_a, shift_b, width, shift_c, width_c):
    """Exponents around 1.0 shifted by powers of two; no C if shift_c is None."""

    def make(rng, shape):
        return matrices(shape, lambda: shape.a.near(rng, shape.a.bias + shift_a, width),
                        lambda: shape.b.near(rng, shape.b.bias + shift_b, width),
                        lambda: 0 if shift_c is None else shape.c.near(rng, shape.c.bias + shift_c, width_c))

    return make


def wide(rng, shape):
    half_a, half_b = shape.a.max_field // 2, shape.b.max_field // 2
    edge = 16 if is_wide(shape.a) else 0  # no overflow, no subnormal product
    return matrices(shape, lambda: shape.a.near(rng, half_a, max(half_a // (2 if edge else 1) - 1, 1)),
                    lambda: shape.b.near(rng, half_b, max(half_b // (2 if edge else 1) - 1, 1)),
                    lambda: shape.c.near(rng, shape.c.bias, 40 if edge else half_a))


def cancelling(rng, shape):
    """Pairs of products that cancel but for the last bit of a factor."""
    a, b, c = spread(0, 0, 5, -14, 12)(rng, shape)
    order = list(range(shape.depth))
    rng.shuffle(order)
    sign = 1 << shape.a.width - 1
    for first, second in zip(order[::2], order[1::2]):
        b[second] = list(b[first])
        for row in a:
            row[second] = row[first] ^ sign ^ (below(rng, 8) == 0)
    return a, b, c


def subnormal_inputs(rng, shape):
    def factor(fmt):
        return lambda: fmt.near(rng, 0, 1) if rng.getrandbits(1) else fmt.near(rng, fmt.bias, 3)

    return matrices(shape, factor(shape.a), factor(shape.b), lambda: shape.c.near(rng, shape.c.bias - shape.a.bias, 8))


def subnormal_results(rng, shape):
    """Sums around 2^-126 and below, where the inputs' range allows it."""
    shift = -68 if is_wide(shape.a) else -shape.a.bias
    return matrices(shape, lambda: shape.a.near(rng, shape.a.bias + shift, 6) if below(rng, 4) else 0,
                    lambda: shape.b.near(rng, shape.b.bias + max(shift, -shape.b.bias), 6),
                    lambda: shape.c.near(rng, 0, 8) if below(rng, 4) else 0)


def subnormal_accumulator(rng, shape):
    """No product at all, so that C alone is left."""
    return matrices(shape, lambda: rng.getrandbits(1) << shape.a.width - 1,
                    lambda: shape.b.near(rng, shape.b.bias, 3), lambda: shape.c.near(rng, 0, 3))


def zeros(rng, shape):
    def factor(fmt):
        return lambda: rng.choice((0, 0, 0, fmt.make(0, fmt.bias, 0))) | rng.getrandbits(1) << fmt.width - 1

    return matrices(shape, factor(shape.a), factor(shape.b), lambda: rng.getrandbits(1) << shape.c.width - 1)


def with_some(rng, fmt, values, odds):
    """Ordinary numbers, one in `odds` replaced by one of `values`."""
    return lambda: rng.choice(values) if below(rng, odds) == 0 else fmt.near(rng, fmt.bias, 3)


def infinities_of(fmt):
    infinity = 0x7F if fmt is E4M3 else fmt.infinity  # e4m3 has NaN alone
    return [infinity, infinity | 1 << fmt.width - 1]


def infinities(rng, shape):
    return matrices(shape, with_some(rng, shape.a, infinities_of(shape.a), 64),
                    with_some(rng, shape.b, infinities_of(shape.b), 64), with_some(rng, shape.c, infinities_of(shape.c), 16))


def zero_times_infinity(rng, shape):
    return matrices(shape, with_some(rng, shape.a, [0, 1 << shape.a.width - 1], 4),
                    with_some(rng, shape.b, infinities_of(shape.b), 48), with_some(rng, shape.c, infinities_of(shape.c), 32))


def nans(rng, shape):
    def values(fmt):
        if fmt is E4M3:
            return [0x7F, 0xFF]
        return [fmt.make(sign, fmt.max_field, 1 + rng.getrandbits(fmt.fraction_bits - 1)) for sign in (0, 1)]

    return matrices(shape, lambda: with_some(rng, shape.a, values(shape.a), 64)(), lambda: shape.b.near(rng, shape.b.bias, 3),
                    lambda: with_some(rng, shape.c, values(shape.c), 16)())


def overflow(rng, shape):
    """Products and accumulators near the largest numbers."""
    top_a = shape.a.bias + 63 if is_wide(shape.a) else shape.a.max_field
    top_b = shape.b.bias + 63 if is_wide(shape.b) else shape.b.max_field
    return matrices(shape, lambda: shape.a.near(rng, top_a, 2), lambda: shape.b.near(rng, top_b, 2),
                    lambda: shape.c.near(rng, shape.c.max_field - 1, 2))


def raw_bits(rng, shape):
    return matrices(shape, lambda: shape.a.any(rng), lambda: shape.b.any(rng), lambda: shape.c.any(rng))


def probe(rng, shape, terms, accumulator):
    """Products at random k only: `terms` gives the shift of each."""
    a, b, c = matrices(shape, lambda: 0, lambda: shape.b.make(0, shape.b.bias, 0), accumulator)
    for row in a:
        places = rng.sample(range(shape.depth), len(terms))
        for place, term in zip(places, terms):
            row[place] = term()
    return a, b, c


def probe_alignment(rng, shape):
    """An accumulator and one product, 0 to 40 bits apart where the format
    allows."""
    return probe(rng, shape, [lambda: shape.a.near(rng, shape.a.bias, 8)],
                 lambda: shape.c.near(rng, shape.c.bias + rng.randint(-32, 32), 0))


def probe_cancellation(rng, shape):
    """x - x + y: what is left of y tells the width of the sum."""
    fmt = shape.a
    x = fmt.make(0, min(fmt.bias + fmt.bias // 2, fmt.bias + 14), rng.getrandbits(fmt.fraction_bits))
    return probe(rng, shape, [lambda: x, lambda: x | 1 << fmt.width - 1, lambda: fmt.near(rng, fmt.bias - 6, 8)],
                 lambda: rng.choice((0, 1 << shape.c.width - 1)))


def probe_two_products(rng, shape):
    """Two products and nothing else: truncation of the smaller."""
    fmt = shape.a
    return probe(rng, shape, [lambda: fmt.near(rng, fmt.bias + 6, 6), lambda: fmt.near(rng, fmt.bias - 6, 8)], lambda: 0)


def probe_accumulator_cancels(rng, shape):
    """C against minus a product of the same size, and a small product."""
    fmt = shape.a
    a, b, c = probe(rng, shape, [lambda: fmt.make(1, fmt.bias, 0), lambda: fmt.near(rng, 1, 6)],
                    lambda: shape.c.make(0, shape.c.bias, rng.getrandbits(shape.c.fraction_bits) if rng.getrandbits(1)
                                         else below(rng, 4)))
    return a, b, c


def probe_tiny(rng, shape):
    """One or two products alone, with no accumulator: from where on are small
    sums cut off."""
    fmt = shape.a
    low = fmt.bias - 70 if is_wide(fmt) else 2
    a, b, c = probe(rng, shape, [lambda: fmt.near(rng, low, 12), lambda: fmt.near(rng, low, 12)],
                    lambda: rng.choice((0, 1 << shape.c.width - 1)))
    if is_wide(fmt):
        b = [[fmt.make(0, fmt.bias - 70, rng.getrandbits(fmt.fraction_bits)) for _ in row] for row in b]
    return a, b, c


CLASSES = {
    "normal": spread(0, 0, 3, 0, 3),
    "normal, C = 0": spread(0, 0, 3, None, 0),
    "small": spread(-5, -5, 2, -12, 3),
    "large": spread(5, 5, 2, 12, 3),
    "wide exponents": wide,
    "cancelling": cancelling,
    "large accumulator": spread(0, 0, 2, 16, 12),
    "small accumulator": spread(0, 0, 2, -16, 12),
    "probe: alignment": probe_alignment,
    "probe: cancellation": probe_cancellation,
    "probe: two products": probe_two_products,
    "probe: accumulator cancels": probe_accumulator_cancels,
    "probe: tiny": probe_tiny,
    "subnormal inputs": subnormal_inputs,
    "subnormal results": subnormal_results,
    "subnormal accumulator": subnormal_accumulator,
    "signed zeros": zeros,
    "infinities": infinities,
    "zero times infinity": zero_times_infinity,
    "NaNs": nans,
    "overflow": overflow,
    "raw bits": raw_bits,
}


def any_integers(rng, shape):
    return matrices(shape, lambda: rng.getrandbits(8), lambda: rng.getrandbits(8), lambda: any_int(rng, 32))


def integers_near_limits(rng, shape):
    """Sums that pass either end of s32, and some that do not."""
    factor = lambda: rng.choice((0x7F, 0x80, 0xFF, 0, 1))
    limit = lambda: rng.choice((0x7FFFFFFF, 0x80000000)) + rng.randint(-1 << 19, 1 << 19)
    return matrices(shape, factor, factor, lambda: limit() & 0xFFFFFFFF)


INTEGER_CLASSES = {"any integers": any_integers, "near the limits": integers_near_limits}


def classes_of(shape):
    return INTEGER_CLASSES if shape.c is S32 else CLASSES


@functools.cache
def fragment_orders(shape):
    """Of A, B and C: for each element of a register, what takes it for all
    registers of a warp from the matrix, whose rows are joined."""

    def order(place, registers, elements, columns):
        places = ([place(r, lane, i) for r in range(registers) for lane in range(LANES)] for i in range(elements))
        return [operator.itemgetter(*(row * columns + column for row, column in some)) for some in places]

    return (order(shape.a_place, shape.a_registers(), shape.per_register(), shape.depth),
            order(shape.b_place, shape.b_registers(), shape.per_register(), COLUMNS),
            order(shape.c_place, shape.c_registers(), shape.per_accumulator(), COLUMNS))


def pack_fragments(shape, *matrices):
    """One warp's registers of A, B and C."""
    fragments = []
    for matrix, order, width in zip(matrices, fragment_orders(shape), (shape.a.width, shape.a.width, shape.c.width)):
        elements = list(itertools.chain.from_iterable(matrix))
        first, *others = (take(elements) for take in order)
        for i, other in enumerate(others, 1):
            first = [word | element << i * width for word, element in zip(first, other)]
        fragments.append(first)
    return fragments


def kernel_text(shape):
    name, num_a, num_b, num_c = shape.name(), shape.a_registers(), shape.b_registers(), shape.c_registers()
    accumulator = shape.register_type()
    # PTX has m16n8k16 and f16 accumulators of 8-bit floats since 8.7.
    is_recent = shape.a.width == 8 and shape.c is not S32 and (shape.depth == 16 or shape.c is F16)
    version = "8.7" if is_recent else "8.6"
    lines = [f".version {version}", ".target sm_89", ".address_size 64", "", f".visible .entry {name}(",
             ",\n".join(f"\t.param .u64 {name}_{i}" for i in range(4)), ")", f".reqntid {WARPS * LANES}, 1, 1", "{",
             "\t.reg .b32 %thread, %cta, %i, %warp, %lane, %n;", "\t.reg .b64 %base, %offset, %address;",
             f"\t.reg .b32 %a<{num_a}>, %b<{num_b}>;", f"\t.reg .{accumulator} %c<{num_c}>, %d<{num_c}>;",
             "\tmov.u32 %thread, %tid.x;", "\tmov.u32 %cta, %ctaid.x;", f"\tmad.lo.u32 %i, %cta, {WARPS * LANES}, %thread;",
             "\tshr.u32 %warp, %i, 5;", "\tand.b32 %lane, %i, 31;"]

    def address(index, registers):
        return [f"\tld.param.u64 %base, [{name}_{index}];", f"\tmad.lo.u32 %n, %warp, {registers * LANES}, %lane;",
                "\tmul.wide.u32 %offset, %n, 4;", "\tadd.u64 %address, %base, %offset;"]

    operands = (("a", num_a, "b32"), ("b", num_b, "b32"), ("c", num_c, accumulator))
    for index, (letter, registers, t) in enumerate(operands):
        lines += address(index, registers)
        lines += [f"\tld.global.{t} %{letter}{r}, [%address+{r * LANES * 4}];" for r in range(registers)]
    tuples = ["{" + ", ".join(f"%{letter}{r}" for r in range(n)) + "}"
              for letter, n in (("d", num_c), ("a", num_a), ("b", num_b), ("c", num_c))]
    lines.append(f"\t{shape.opcode()} {', '.join(tuples)};")
    lines += address(3, num_c)
    lines += [f"\tst.global.{accumulator} [%address+{r * LANES * 4}], %d{r};" for r in range(num_c)]
    return "\n".join(lines + ["\tret;", "}", ""])


def mma_inputs(shape):
    fragments = [], [], []
    for name, make in classes_of(shape).items():
        rng = generator(f"{shape.name()} {name}")
        for _ in range(PRODUCTS):
            for whole, part in zip(fragments, pack_fragments(shape, *make(rng, shape))):
                whole += part
    return list(zip(("b32", "b32", shape.register_type()), fragments))


def mma_launch(shape):
    classes = classes_of(shape)
    count = PRODUCTS * shape.c_registers() * LANES
    results = [Result(f"{shape.name()} {name}", i * count, count, shape.result_type(), "exact") for i, name in enumerate(classes)]
    return Launch(shape.name(), kernel_text(shape), len(classes) * PRODUCTS // WARPS, WARPS * LANES,
                  Drawn(lambda: mma_inputs(shape)), shape.register_type(), results, shape)


def mma_launches():
    return [mma_launch(shape) for shape in SHAPES]


def example(launch, index):
    """Row of A, column of B and C that element `index` of the output is made
    of, as bits; of a packed one those of its low half."""
    shape = launch.shape
    per_warp = shape.c_registers() * LANES
    warp, register, lane = index // per_warp, index % per_warp // LANES, index % LANES
    row, column = shape.c_place(register, lane, 0)
    a, b, n = [0] * shape.depth, [0] * shape.depth, shape.per_register()
    ones = (1 << shape.a.width) - 1

    def words(operand, registers, r, other):
        return launch.inputs[operand][1][(warp * registers + r) * LANES + other]

    for other in range(LANES):
        for i in range(n):
            for r in range(shape.a_registers()):
                place = shape.a_place(r, other, i)
                if place[0] == row:
                    a[place[1]] = words(0, shape.a_registers(), r, other) >> i * shape.a.width & ones
            for r in range(shape.b_registers()):
                place = shape.b_place(r, other, i)
                if place[1] == column:
                    b[place[0]] = words(1, shape.b_registers(), r, other) >> i * shape.b.width & ones
    c = words(2, shape.c_registers(), register, lane)
    return {"a": [f"{x:x}" for x in a], "b": [f"{x:x}" for x in b], "c": f"{c:08x}"}
