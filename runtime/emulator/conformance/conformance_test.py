#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Unit tests of the corpus generator and of the rules by which it is judged."""
import dataclasses
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest

import card_figures
import judge
import npy
import wgmma
import wmma
from launch import Launch, Result, pack
from mma import CLASSES, SHAPES, example, mma_launch
from traffic import traffic_kernels
from values import BF16, F16, F32, generator

COMPARE = pathlib.Path(__file__).resolve().parents[3] / "scripts/compare-with-card.py"
DIGEST = pathlib.Path(__file__).resolve().parent / "corpus.sha256"


def verdict(type_name, rule, card, emulator, operands=None):
    memory = {"f16x2": "b32", "f16": "b16", "u32": "b32"}.get(type_name, type_name)
    result = Result("test", 0, len(card), type_name, rule)
    launch = Launch("test", "", 1, 1, [("f32", operands or [0] * len(card))], memory, [result])
    return judge.judge(launch, result, pack(memory, card), pack(memory, emulator))


class Rules(unittest.TestCase):
    def test_exact_compares_bits(self):
        self.assertEqual(verdict("u32", "exact", [1, 2], [1, 2]).text(), "equal")
        self.assertEqual(verdict("u32", "exact", [1, 3], [1, 2]).text(), "BROKEN")
        self.assertEqual(verdict("f32", "exact", [0x80000000], [0]).text(), "BROKEN")

    def test_ulps_are_counted_across_zero(self):
        result = verdict("f32", "ulp 2", [0x80000001], [0x00000001])
        self.assertEqual((result.max_ulp, result.text()), (2, "within ulp 2"))
        self.assertEqual(verdict("f32", "ulp 2", [0x3F800003], [0x3F800000]).text(), "BROKEN")

    def test_nans_must_be_equal_bit_for_bit(self):
        self.assertEqual(verdict("f32", "ulp 2", [0x7FFFFFFF], [0x7FFFFFFF]).text(), "equal")
        self.assertEqual(verdict("f32", "ulp 2", [0x7FC00000], [0x7FFFFFFF]).text(), "BROKEN")

    def test_relative_and_absolute_bounds(self):
        self.assertEqual(verdict("f32", "relative 2^-11", [0x3F800800], [0x3F800000]).text(), "within relative 2^-11")
        self.assertEqual(verdict("f32", "relative 2^-11", [0x3F802800], [0x3F800000]).text(), "BROKEN")
        self.assertEqual(verdict("f32", "absolute 2^-20.5", [0x35000000], [0]).text(), "within absolute 2^-20.5")
        self.assertEqual(verdict("f32", "absolute 2^-20.5", [0x36000000], [0]).text(), "BROKEN")

    def test_a_bound_holds_for_small_operands_only(self):
        rule = "absolute 2^-20.5 below 3.14159"
        self.assertEqual(verdict("f32", rule, [0x3F000000], [0], [0x3F800000]).text(), "BROKEN")
        self.assertEqual(verdict("f32", rule, [0x3F000000], [0], [0x47000000]).text(), "within " + rule)

    def test_packed_halves_are_judged_apart(self):
        result = verdict("f16x2", "ulp 1", [0x3C013C01], [0x3C003C00])
        self.assertEqual((result.max_ulp, result.text()), (1, "within ulp 1"))
        self.assertEqual(verdict("f16x2", "ulp 1", [0x3C033C00], [0x3C003C00]).text(), "BROKEN")

    def test_nan_patterns_are_counted(self):
        result = Result("test", 0, 2, "f16x2", "exact")
        launch = Launch("test", "", 1, 1, [], "b32", [result])
        counts = judge.nan_patterns(launch, result, pack("b32", [0x7FFF3C00, 0x7FFF7E00]))
        self.assertEqual(dict(counts), {0x7FFF: 2, 0x7E00: 1})


class Values(unittest.TestCase):
    def test_formats(self):
        self.assertEqual([F16.infinity, BF16.infinity, F32.infinity], [0x7C00, 0x7F80, 0x7F800000])
        self.assertTrue(F32.is_nan(0xFF800001))
        self.assertFalse(F32.is_nan(0xFF800000))

    def test_encode_and_decode_npy(self):
        self.assertEqual(npy.decode(npy.encode(bytes(range(16)), 4)), bytes(range(16)))
        with self.assertRaises(ValueError):
            npy.decode(b"PK\x03\x04 not an array")

    def test_archive(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.npz"
            with npy.Archive(path, "w") as archive:
                archive.write("x", b"abcd", 4)
                archive.write_note("{}")
            with npy.Archive(path) as archive:
                self.assertEqual((archive.names(), archive.read("x"), archive.read_note()), (["x"], b"abcd", "{}"))


class Fragments(unittest.TestCase):
    def test_every_element_has_one_place(self):
        for shape in SHAPES:
            per = range(shape.per_register())
            a = {shape.a_place(r, lane, i) for r in range(shape.a_registers()) for lane in range(32) for i in per}
            b = {shape.b_place(r, lane, i) for r in range(shape.b_registers()) for lane in range(32) for i in per}
            self.assertEqual(a, {(row, k) for row in range(16) for k in range(shape.depth)})
            self.assertEqual(b, {(k, column) for column in range(8) for k in range(shape.depth)})
            c = {shape.c_place(r, lane, i) for r in range(shape.c_registers()) for lane in range(32)
                 for i in range(shape.per_accumulator())}
            self.assertEqual(c, {(row, column) for row in range(16) for column in range(8)})

    def test_example_finds_the_operands_of_an_element(self):
        shape = SHAPES[0]
        launch = mma_launch(shape)
        # Warp 1, register 2, lane 5: row 9, column 2.
        found = example(launch, 128 + 2 * 32 + 5)
        words = launch.inputs[0][1]
        first = words[(1 * 4 + 1) * 32 + 4]  # row 9 is in register 1 of lanes 4..7
        self.assertEqual(found["a"][0], f"{first & 0xFFFF:x}")
        self.assertEqual(found["a"][1], f"{first >> 16:x}")
        self.assertEqual(found["c"], f"{launch.inputs[2][1][(1 * 4 + 2) * 32 + 5]:08x}")


class WmmaMatrices(unittest.TestCase):
    def test_every_element_has_one_place(self):
        for shape in wmma.SHAPES:
            for matrix in "abcd":
                rows, columns = shape.extents(matrix)
                places = {shape.place(matrix, row, column) for row in range(rows) for column in range(columns)}
                self.assertEqual(places, set(range(shape.words(matrix) * 32 // shape.width(matrix))))

    def test_example_finds_the_operands_of_an_element(self):
        # Of f16, B by columns and all else by rows: word 128 + 2 * 8 + 5 of
        # D is row 2, columns 10 and 11, of the second product.
        shape = next(s for s in wmma.SHAPES if s.name() == "wmma_m16n16k16_f16_f32_row_col_row")
        launch = wmma.wmma_launch(shape)
        found = launch.shape.example(launch, 128 + 2 * 8 + 5)
        a, b, c = (values for _, values in launch.inputs)
        self.assertEqual(found["a"][3], f"{a[128 + 2 * 8 + 1] >> 16:x}")
        self.assertEqual(found["b"][3], f"{b[128 + 10 * 8 + 1] >> 16:x}")
        self.assertEqual(found["c"], f"{c[256 + 2 * 16 + 10]:x}")

    def test_a_wrong_word_is_broken_and_has_its_operands(self):
        launch = wmma.wmma_launch(wmma.SHAPES[-1])
        emulator = bytes(launch.output_bytes())
        card = bytearray(emulator)
        card[4 * 7] = 1
        verdict = judge.judge(launch, launch.results[0], bytes(card), emulator)
        self.assertEqual((verdict.differing, verdict.broken), (1, 1))
        self.assertEqual(len(verdict.examples[0]["a"]), 8)


def wgmma_launch(shape):
    """Of one class."""
    name = "normal"
    return wgmma.wgmma_launch(shape, {name: lambda: CLASSES[name](generator(name), dataclasses.replace(shape, columns=64))})


class WgmmaMatrices(unittest.TestCase):
    def test_every_element_has_one_place(self):
        for shape in wgmma.SHAPES:
            matrices = [shape.matrix_b()] + [shape.matrix_a()] * (shape.major_a != wgmma.REGISTERS)
            for matrix in matrices:
                places = {matrix.place(mn, k) for mn in range(matrix.rows) for k in range(matrix.depth)}
                self.assertEqual(places, set(range(matrix.rows * matrix.depth)))
            a, b, c = map(set, shape.orders())
            self.assertEqual(a, set(itertools.product(range(64), range(shape.depth))))
            self.assertEqual(b, set(itertools.product(range(shape.columns), range(shape.depth))))
            self.assertEqual(c, set(itertools.product(range(64), range(shape.columns))))

    def test_layouts_are_those_of_their_descriptors(self):
        # In bytes: the element (mn, k) = (9, 20), and from the first to (0, 16).
        by_k = wgmma.Matrix(256, 64, wgmma.BY_K, True)
        self.assertEqual((2 * by_k.place(9, 20), by_k.step()), (1024 + 128 + 16 * (2 ^ 1) + 8, 32))
        self.assertEqual(by_k.descriptor() >> 32, 1 << 30 | 1024 >> 4)
        # (73, 20): the second 64 of mn, and line 20 of its 64.
        by_mn = wgmma.Matrix(256, 64, wgmma.BY_MN, True)
        self.assertEqual((2 * by_mn.place(73, 20), by_mn.step()), (8192 + 2 * 1024 + 4 * 128 + 16 * (1 ^ 4) + 2, 2048))
        self.assertEqual(by_mn.descriptor(), 1 << 62 | (1024 >> 4) << 32 | (8192 >> 4) << 16)
        for major, within in ((wgmma.BY_K, 16 * 1 + 2 * 5), (wgmma.BY_MN, 16 * 5 + 2 * 1)):
            plain = wgmma.Matrix(64, 16, major, False)
            self.assertEqual(2 * plain.place(9, 13), 256 + 128 + within)
            self.assertEqual(plain.descriptor(), (256 >> 4) << 32 | (128 >> 4) << 16)

    def test_example_finds_the_operands_of_an_element(self):
        # The second CTA has columns 8 to 15; register 2 of thread 37 is row 16 + 9, column 8 + 2.
        for major_a in (wgmma.REGISTERS, wgmma.BY_K):
            shape = wgmma.WgmmaShape(BF16, 8, major_a, wgmma.BY_K, True)
            a, b, c = CLASSES["normal"](generator("normal"), dataclasses.replace(shape, columns=64))
            found = shape.example(wgmma_launch(shape), 64 * 8 + 2 * 128 + 37)
            self.assertEqual(found["a"], [f"{x:x}" for x in a[25]])
            self.assertEqual(found["b"], [f"{row[10]:x}" for row in b])
            self.assertEqual(found["c"], f"{c[25][10]:08x}")

    def test_a_wrong_element_is_broken_and_has_its_operands(self):
        launch = wgmma_launch(wgmma.SHAPES[0])
        emulator = bytes(launch.output_bytes())
        card = bytearray(emulator)
        card[4 * 7] = 1
        verdict = judge.judge(launch, launch.results[0], bytes(card), emulator)
        self.assertEqual((verdict.differing, verdict.broken), (1, 1))
        self.assertEqual(len(verdict.examples[0]["a"]), 16)

    def test_names_are_of_one_form_each(self):
        names = {shape.name() for shape in wgmma.SHAPES}
        self.assertEqual(len(names), len(wgmma.SHAPES))


class Chips(unittest.TestCase):
    def runs_on(self, target):
        launch = Launch("test", f".version 8.0\n.target {target}\n", 1, 1, [], "b32", [])
        self.assertEqual(launch.target(), target)
        return [chip for chip in ("sm_80", "sm_89", "sm_90", "sm_100") if launch.runs_on(chip)]

    def test_code_for_a_chip_runs_on_later_ones_unless_it_ends_in_a(self):
        self.assertEqual(self.runs_on("sm_89"), ["sm_89", "sm_90", "sm_100"])
        self.assertEqual(self.runs_on("sm_90a"), ["sm_90"])


class Figures(unittest.TestCase):
    def test_rows_that_no_card_has_run_yet_are_told(self):
        run = {"date": "today", "device": "card", "chip": "sm_90", "results": 5,
               "rows": {row: {"equal": 1} for row in card_figures.ROWS if row != card_figures.WMMA}}
        self.assertIn(f"| {card_figures.WMMA} | not run there yet |", card_figures.table({"default": run}))
        run["rows"][card_figures.WMMA] = {"equal": 2}
        self.assertNotIn("not run", card_figures.table({"default": run}))


class Corpus(unittest.TestCase):
    def compare(self, *options):
        return subprocess.run([sys.executable, str(COMPARE), *options], capture_output=True, text=True)

    def test_another_corpus_is_told(self):
        # A part of the corpus is not what is recorded of all of it.
        done = self.compare("--check-digest", "--only", "mma_m16n8k8_f16_f16")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"expects the corpus [0-9a-f]{{64}} of .*{DIGEST.name}, but got [0-9a-f]{{64}}: ")

    def test_figures_of_the_documentation_are_of_this_corpus(self):
        done = self.compare("--figures", str(COMPARE.parent.parent / "docs/figures/card.json"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_traffic_kernels_have_names_of_their_own(self):
        names = [kernel.name for kernel in traffic_kernels()]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
