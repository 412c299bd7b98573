# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma of the corpus: a warpgroup copies its operands into shared memory and
multiplies them. Each launch is one form of the instruction and of its operands'
layouts, each result one class of inputs. All forms of one type and depth
multiply the same matrices, so without operands that are negated or left out they
give the same sums. The buffers of A and B are images of what the kernel
wants in shared memory or in registers; those of C and D lie as
[CTA][register][thread]."""
import dataclasses
import functools
import itertools

from launch import Drawn, Launch, Result
from mma import CLASSES, MmaShape
from values import BF16, F16, F32, generator

THREADS, LANES = 128, 32  # of the warpgroup, which is the CTA, and of a warp
STEP = 16                 # k of one instruction
PIECE = 8                 # elements in 16 bytes, which a swizzle moves as one
LINE = 64                 # elements in a line of the 128-byte swizzle
ELEMENT = 2               # bytes of f16 and bf16
NARROW = 64               # columns that forms of fewer multiply in several CTAs

REGISTERS, BY_K, BY_MN = "registers", "kmajor", "mnmajor"  # where A, and how A and B, lie


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A, or B transposed, in shared memory: `mn` is its row, or its column. The
    canonical layouts of the PTX ISA (9.7.15.5), without gaps."""
    rows: int
    depth: int
    major: str
    swizzled: bool  # by 128 bytes, or not at all

    def bytes(self):
        return self.rows * self.depth * ELEMENT

    def strides(self):
        """Leading and stride byte offset. No leading one counts where the lines
        of a swizzle go along k."""
        if not self.swizzled:  # squares of 8 by 8 elements, those along k first
            return 128, 16 * self.depth
        return LINE * self.depth * ELEMENT, 1024

    def place(self, mn, k):
        """Of an element, in elements."""
        leading, stride = (offset // ELEMENT for offset in self.strides())
        along, line = (mn, k) if self.major == BY_MN else (k, mn)
        if not self.swizzled:
            return k // 8 * leading + mn // 8 * stride + line % 8 * PIECE + along % 8
        piece = along % LINE // PIECE ^ line % 8
        return along // LINE * leading + line // 8 * stride + line % 8 * LINE + piece * PIECE + along % PIECE

    def order(self):
        """(mn, k) of each element in memory."""
        return sorted(((mn, k) for mn in range(self.rows) for k in range(self.depth)), key=lambda at: self.place(*at))

    def descriptor(self):
        """But for the start address."""
        leading, stride = self.strides()
        return leading >> 4 << 16 | stride >> 4 << 32 | int(self.swizzled) << 62

    def step(self):
        """From the k of one instruction to that of the next, in bytes."""
        return self.place(0, STEP) * ELEMENT


@dataclasses.dataclass(frozen=True)
class WgmmaShape:
    """D = A B + C by as many instructions as the depth takes, one on top of the
    other. The swizzle's lines hold the k of four."""
    rows = 64
    c = F32
    a: object  # a FloatFormat
    columns: int
    major_a: str
    major_b: str
    swizzled: bool
    accumulates: bool = True  # or the first instruction leaves C out
    scale_a: int = 1
    scale_b: int = 1

    @property
    def b(self):
        return self.a

    @property
    def depth(self):
        return LINE if self.swizzled else STEP

    def steps(self):
        return self.depth // STEP

    def products(self):
        """Of one class: a CTA each."""
        return max(1, NARROW // self.columns)

    def name(self):
        parts = ["wgmma", f"m64n{self.columns}k16", self.a.name, self.major_a, self.major_b]
        parts += ["swizzled"] * self.swizzled + ["fresh"] * (not self.accumulates)
        return "_".join(parts + ["minus_a"] * (self.scale_a < 0) + ["minus_b"] * (self.scale_b < 0))

    def sums(self):
        """Accumulators of a thread."""
        return self.rows * self.columns // THREADS

    def matrix_a(self):
        return Matrix(self.rows, self.depth, self.major_a, self.swizzled)

    def matrix_b(self):
        return Matrix(self.columns, self.depth, self.major_b, self.swizzled)

    def order_a(self):
        """(row, k) of each element of A in a CTA's part of the buffer."""
        if self.major_a != REGISTERS:
            return self.matrix_a().order()
        fragment = MmaShape(STEP, self.a, self.a)  # of each warp, which has 16 rows
        places = itertools.product(range(self.steps()), range(fragment.a_registers()), range(THREADS),
                                   range(fragment.per_register()))
        return [(thread // LANES * fragment.rows + row, step * STEP + k) for step, register, thread, i in places
                for row, k in [fragment.a_place(register, thread % LANES, i)]]

    def order_c(self):
        """(row, column) of each accumulator of a CTA."""
        tile = MmaShape(STEP, self.a, self.a)  # of each warp, one beside the other
        return [(thread // LANES * tile.rows + row, register // 4 * tile.columns + column)
                for register in range(self.sums()) for thread in range(THREADS)
                for row, column in [tile.c_place(register % 4, thread % LANES, 0)]]

    @functools.cache
    def orders(self):
        return self.order_a(), self.matrix_b().order(), self.order_c()

    def pack(self, a, b, c):
        """The buffers of matrices given by rows, of which CTAs multiply what
        columns they need."""
        order_a, order_b, order_c = self.orders()
        firsts = range(0, self.products() * self.columns, self.columns)
        return ([a[row][k] for _ in firsts for row, k in order_a],
                [b[k][first + column] for first in firsts for column, k in order_b],
                [c[row][first + column] for first in firsts for row, column in order_c])

    def example(self, launch, index):
        """Row of A, column of B and C that element `index` of the output is made
        of, as bits."""
        cta, place = divmod(index, self.rows * self.columns)
        order_a, order_b, order_c = self.orders()
        row, column = order_c[place]

        def line(operand, order, mn):
            values = launch.inputs[operand][1][cta * len(order):(cta + 1) * len(order)]
            found = {k: value for (other, k), value in zip(order, values) if other == mn}
            return [f"{found[k]:x}" for k in range(self.depth)]

        return {"a": line(0, order_a, row), "b": line(1, order_b, column),
                "c": f"{launch.inputs[2][1][index]:08x}"}


def shapes_of(fmt):
    """Every layout at one width, the other widths, and what an instruction can do
    to its operands."""
    both = (False, True)
    layouts = [(a, b) for a in (REGISTERS, BY_K, BY_MN) for b in (BY_K, BY_MN)]
    shapes = [WgmmaShape(fmt, 64, a, b, swizzled) for swizzled in both for a, b in layouts]
    shapes += [WgmmaShape(fmt, 8, a, BY_K, swizzled) for swizzled in both for a in (REGISTERS, BY_K)]
    shapes.append(WgmmaShape(fmt, 8, BY_K, BY_MN, False))
    # Wider than a line of the swizzle.
    for columns in (128, 256):
        shapes += [WgmmaShape(fmt, columns, REGISTERS, BY_MN, True), WgmmaShape(fmt, columns, BY_K, BY_K, True)]
    shapes.append(WgmmaShape(fmt, 128, BY_K, BY_MN, False))
    for major_a in (REGISTERS, BY_K):
        shapes += [WgmmaShape(fmt, 64, major_a, BY_K, swizzled, accumulates=False) for swizzled in both]
        shapes += [WgmmaShape(fmt, 64, major_a, BY_K, False, True, *scales) for scales in ((-1, 1), (1, -1), (-1, -1))]
    return shapes


SHAPES = [shape for fmt in (F16, BF16) for shape in shapes_of(fmt)]


def address_text(shape, index, cta_bytes, thread_bytes):
    """Of this thread in this CTA's part of a buffer."""
    return [f"\tld.param.u64 %base, [{shape.name()}_{index}];", f"\tmul.wide.u32 %offset, %cta, {cta_bytes};",
            "\tadd.u64 %base, %base, %offset;", f"\tmul.wide.u32 %offset, %thread, {thread_bytes};",
            "\tadd.u64 %address, %base, %offset;"]


def copy_text(shape, index, matrix, start):
    """From a buffer to shared memory, of which `start` is relative to the tile."""
    unit = min(matrix.bytes() // THREADS, 8)
    kind = {2: "b16", 8: "b64"}[unit]
    lines = address_text(shape, index, matrix.bytes(), unit) + [f"\tmad.lo.u32 %slot, %thread, {unit}, %tile;"]
    for offset in range(0, matrix.bytes(), unit * THREADS):
        lines += [f"\tld.global.{kind} %{kind}, [%address+{offset}];", f"\tst.shared.{kind} [%slot+{start + offset}], %{kind};"]
    return lines


def registers_text(shape, index, letter, kind, count):
    return address_text(shape, index, 4 * THREADS * count, 4) + [
        f"\tld.global.{kind} %{letter}{i}, [%address+{4 * THREADS * i}];" for i in range(count)]


def register_list(letter, count, first=0):
    return "{" + ", ".join(f"%{letter}{i}" for i in range(first, first + count)) + "}"


def products_text(shape, in_shared):
    """The instructions, and what moves the descriptors between them."""
    opcode = f"wgmma.mma_async.sync.aligned.m64n{shape.columns}k16.f32.{shape.a.name}.{shape.b.name}"
    transposes = [int(matrix.major == BY_MN) for matrix, _ in in_shared.values()]
    immediates = ", ".join(map(str, [shape.scale_a, shape.scale_b, *transposes]))
    lines = [f"\tsetp.ne.b32 %keep, {int(shape.accumulates)}, 0;"]
    for step in range(shape.steps()):
        if step:
            lines.append("\tsetp.ne.b32 %keep, 1, 0;")
            lines += [f"\tadd.u64 %from_{letter}, %from_{letter}, {matrix.step() >> 4};"
                      for letter, (matrix, _) in in_shared.items()]
        a = "%from_a" if "a" in in_shared else register_list("a", 4, 4 * step)
        lines.append(f"\t{opcode} {register_list('d', shape.sums())}, {a}, %from_b, %keep, {immediates};")
    return lines


def kernel_text(shape):
    name, sums, words_a = shape.name(), shape.sums(), 4 * shape.steps()
    # Matrices in shared memory, in the order of their immediates, and where they start.
    a, b = shape.matrix_a(), shape.matrix_b()
    in_shared = {"b": (b, 0)} if a.major == REGISTERS else {"a": (a, 0), "b": (b, a.bytes())}
    size = sum(matrix.bytes() for matrix, _ in in_shared.values())
    lines = [".version 8.0", ".target sm_90a", ".address_size 64", "", f".visible .entry {name}(",
             ",\n".join(f"\t.param .u64 {name}_{i}" for i in range(4)), ")", f".reqntid {THREADS}, 1, 1", "{",
             f"\t.shared .align 1024 .b8 tile[{size}];", "\t.reg .b16 %b16;", "\t.reg .b32 %thread, %cta, %tile, %slot;",
             "\t.reg .b64 %base, %offset, %address, %start, %from_a, %from_b, %b64;", "\t.reg .pred %keep;",
             f"\t.reg .b32 %a<{words_a}>;", f"\t.reg .f32 %d<{sums}>;", "\tmov.u32 %thread, %tid.x;",
             "\tmov.u32 %cta, %ctaid.x;", "\tmov.u32 %tile, tile;"]
    for letter, (matrix, start) in in_shared.items():
        lines += copy_text(shape, "ab".index(letter), matrix, start)
    if a.major == REGISTERS:
        lines += registers_text(shape, 0, "a", "b32", words_a)
    lines += registers_text(shape, 2, "d", "f32", sums)
    lines += ["\tfence.proxy.async.shared::cta;", "\tbar.sync 0;", "\tcvt.u64.u32 %start, %tile;",
              "\tshr.u64 %start, %start, 4;"]
    lines += [f"\tadd.u64 %from_{letter}, %start, {matrix.descriptor() | start >> 4:#x};"
              for letter, (matrix, start) in in_shared.items()]
    lines += ["\twgmma.fence.sync.aligned;", *products_text(shape, in_shared), "\twgmma.commit_group.sync.aligned;",
              "\twgmma.wait_group.sync.aligned 0;", *address_text(shape, 3, 4 * THREADS * sums, 4)]
    lines += [f"\tst.global.f32 [%address+{4 * THREADS * i}], %d{i};" for i in range(sums)]
    return "\n".join(lines + ["\tret;", "}", ""])


def wgmma_inputs(shape, matrices):
    inputs = [], [], []
    for make in matrices.values():
        for whole, part in zip(inputs, shape.pack(*make())):
            whole += part
    return list(zip(("b16", "b16", "f32"), inputs))


def wgmma_launch(shape, matrices):
    """`matrices` has for each class what gives A, B and C."""
    count = shape.products() * shape.rows * shape.columns
    results = [Result(f"{shape.name()} {name}", i * count, count, "f32", "exact") for i, name in enumerate(matrices)]
    return Launch(shape.name(), kernel_text(shape), len(matrices) * shape.products(), THREADS,
                  Drawn(lambda: wgmma_inputs(shape, matrices)), "f32", results, shape)


@functools.cache
def drawn_matrices(shape, name):
    """A, B and C of a class."""
    return CLASSES[name](generator(f"wgmma {shape.a.name} k{shape.depth} {name}"), shape)


def wgmma_launches():
    launches = []
    for fmt, swizzled in itertools.product((F16, BF16), (False, True)):
        shapes = [shape for shape in SHAPES if shape.a is fmt and shape.swizzled is swizzled]
        widest = max(shapes, key=lambda shape: shape.columns)
        matrices = {name: functools.partial(drawn_matrices, widest, name) for name in CLASSES}
        launches += [wgmma_launch(shape, matrices) for shape in shapes]
    return launches
