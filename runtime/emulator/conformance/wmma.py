# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wmma of the corpus: a warp loads its fragments of A, B and C, multiplies them
and stores D. Each launch is one shape, type and pair of layouts, each result
one class of inputs. Matrices lie one after the other as wmma.load and
wmma.store see them, so which lane holds what does not matter here."""
import dataclasses
import itertools

from launch import Drawn, Launch, Result
from mma import S8, S32, TF32, U8, classes_of
from values import BF16, F16, F32, generator

LANES = 32
PRODUCTS = 8  # of one class
WARPS = 4     # of a CTA


@dataclasses.dataclass(frozen=True)
class WmmaShape:
    rows: int
    columns: int
    depth: int
    a: object  # a FloatFormat or IntFormat
    c: object
    d: object
    layouts: tuple  # of A, of B, of C and D: "row" or "col"
    saturates: bool = False

    @property
    def b(self):
        return self.a

    def dimensions(self):
        return f"m{self.rows}n{self.columns}k{self.depth}"

    def types(self):
        """The suffix of wmma.mma."""
        if self.a is F16:
            return f"{self.d.name}.{self.c.name}"
        return f"{self.d.name}.{self.a.name}.{self.a.name}.{self.c.name}"

    def name(self):
        suffix = "_satfinite" if self.saturates else ""
        return "_".join(["wmma", self.dimensions(), self.types().replace(".", "_"), *self.layouts]) + suffix

    def registers(self, matrix):
        """Of a fragment: those of A and B of f16 hold everything twice."""
        if matrix in "cd":
            return 4 if getattr(self, matrix) is F16 else 8
        if self.a is F16:
            return 8
        elements = self.depth * (self.rows if matrix == "a" else self.columns)
        return elements * self.a.width // 32 // LANES

    def register_type(self, matrix):
        fmt = self.a if matrix in "ab" else getattr(self, matrix)
        return "f32" if fmt is F32 else "b32"

    def extents(self, matrix):
        """Rows and columns."""
        return {"a": (self.rows, self.depth), "b": (self.depth, self.columns)}.get(matrix, (self.rows, self.columns))

    def layout(self, matrix):
        return self.layouts["ab".find(matrix) if matrix in "ab" else 2]

    def width(self, matrix):
        return (self.a if matrix in "ab" else getattr(self, matrix)).width

    def words(self, matrix):
        rows, columns = self.extents(matrix)
        return rows * columns * self.width(matrix) // 32

    def stride(self, matrix):
        return self.extents(matrix)[1 if self.layout(matrix) == "row" else 0]

    def place(self, matrix, row, column):
        """Of an element, in elements."""
        return row * self.stride(matrix) + column if self.layout(matrix) == "row" else column * self.stride(matrix) + row

    def pack(self, matrix, values):
        """The words of a matrix given by rows."""
        ordered = values if self.layout(matrix) == "row" else zip(*values)
        elements, width = list(itertools.chain.from_iterable(ordered)), self.width(matrix)
        words = [0] * self.words(matrix)
        for i in range(32 // width):
            words = [word | element << i * width for word, element in zip(words, elements[i::32 // width])]
        return words

    def example(self, launch, index):
        """Row of A, column of B and C that word `index` of the output is made
        of, as bits; of a packed one those of its low half."""
        product, word = divmod(index, self.words("d"))
        place = divmod(word * (32 // self.width("d")), self.stride("d"))
        row, column = place if self.layout("d") == "row" else place[::-1]

        def element(operand, row, column):
            matrix = "abc"[operand]
            word, i = divmod(self.place(matrix, row, column), 32 // self.width(matrix))
            bits = launch.inputs[operand][1][product * self.words(matrix) + word] >> i * self.width(matrix)
            return f"{bits & (1 << self.width(matrix)) - 1:x}"

        return {"a": [element(0, row, k) for k in range(self.depth)],
                "b": [element(1, k, column) for k in range(self.depth)], "c": element(2, row, column)}


SIZES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
LAYOUTS = [("row", "col", "row"), ("col", "row", "col")]
FLOATS = [(F16, F32, F32), (F16, F16, F16), (F16, F16, F32), (F16, F32, F16), (BF16, F32, F32)]
SHAPES = [WmmaShape(*size, *types, layouts, saturates) for layouts in LAYOUTS for size, types, saturates in [
    *((size, types, False) for size in SIZES for types in FLOATS),
    *((size, (a, S32, S32), saturates) for size in SIZES for a in (S8, U8) for saturates in (False, True)),
    ((16, 16, 8), (TF32, F32, F32), False)]]


def kernel_text(shape):
    name, dimensions = shape.name(), shape.dimensions()
    lines = [".version 8.6", ".target sm_89", ".address_size 64", "", f".visible .entry {name}(",
             ",\n".join(f"\t.param .u64 {name}_{i}" for i in range(4)), ")", f".reqntid {WARPS * LANES}, 1, 1", "{",
             "\t.reg .b32 %thread, %cta, %i, %warp;", "\t.reg .b64 %base, %offset, %address;",
             *(f"\t.reg .{shape.register_type(m)} %{m}<{shape.registers(m)}>;" for m in "abcd"),
             "\tmov.u32 %thread, %tid.x;", "\tmov.u32 %cta, %ctaid.x;", f"\tmad.lo.u32 %i, %cta, {WARPS * LANES}, %thread;",
             "\tshr.u32 %warp, %i, 5;"]
    tuples = {m: "{" + ", ".join(f"%{m}{r}" for r in range(shape.registers(m))) + "}" for m in "abcd"}

    def access(index, matrix, operation, operands):
        element = (shape.a if matrix in "ab" else getattr(shape, matrix)).name
        return [f"\tld.param.u64 %base, [{name}_{index}];", f"\tmul.wide.u32 %offset, %warp, {4 * shape.words(matrix)};",
                "\tadd.u64 %address, %base, %offset;",
                f"\twmma.{operation}.{matrix}.sync.aligned.{shape.layout(matrix)}.{dimensions}.global.{element} "
                f"{operands}, {shape.stride(matrix)};"]

    for index, matrix in enumerate("abc"):
        lines += access(index, matrix, "load", f"{tuples[matrix]}, [%address]")
    a, b, _ = shape.layouts
    saturate = ".satfinite" if shape.saturates else ""
    lines.append(f"\twmma.mma.sync.aligned.{a}.{b}.{dimensions}.{shape.types()}{saturate} "
                 f"{', '.join(tuples[m] for m in 'dabc')};")
    lines += access(3, "d", "store", f"[%address], {tuples['d']}")
    return "\n".join(lines + ["\tret;", "}", ""])


def wmma_inputs(shape):
    inputs = [], [], []
    for name, make in classes_of(shape).items():
        rng = generator(f"{shape.name()} {name}")
        for _ in range(PRODUCTS):
            for whole, matrix, values in zip(inputs, "abc", make(rng, shape)):
                whole += shape.pack(matrix, values)
    return list(zip(map(shape.register_type, "abc"), inputs))


def wmma_launch(shape):
    classes = classes_of(shape)
    count = PRODUCTS * shape.words("d")
    kind = {"f32": "f32", "f16": "f16x2", "s32": "s32"}[shape.d.name]
    results = [Result(f"{shape.name()} {name}", i * count, count, kind, "exact") for i, name in enumerate(classes)]
    return Launch(shape.name(), kernel_text(shape), len(classes) * PRODUCTS // WARPS, WARPS * LANES,
                  Drawn(lambda: wmma_inputs(shape)), shape.register_type("d"), results, shape)


def wmma_launches():
    return [wmma_launch(shape) for shape in SHAPES]
