"""Tests of the scripts of this folder, on small texts."""

import dataclasses
import pathlib
import unittest

import ancestors
import contracts
import emulation
import figures
import mutants
import mutations
import ptx
from bundle import Tensor  # emulation knows where it is

KERNEL = """
.visible .entry kernel()
{
	.reg .pred 	%p<4>;

	mov.u32 	%r1, %tid.x;
	cp.async.cg.shared.global [%r1+16], [%rd1], 16, %r2;
	cp.async.commit_group;
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	setp.lt.s64 	%p1, %rd2, %rd3;
	selp.f32 	%r3, 0fFF800000, %r3, %p1;
$L__BB0_2:
	cp.async.wait_group 	0;
	bar.sync 	0;
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
		{%r4, %r5, %r6, %r7},
		{%r8, %r9, %r10, %r11},
		{%r12, %r13},
		{%r14, %r15, %r16, %r17};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
		{%r20, %r21, %r22, %r23},
		{%r24, %r25, %r26, %r27},
		{%r28, %r29},
		{%r4, %r5, %r6, %r7};
	setp.ne.s64 	%p2, %rd4, 0;
	@%p2 bra 	$L__BB0_1;
	st.global.b32 	[%rd5], %r20;
	ret;

}
""".splitlines()
PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LAUNCH = emulation.Launch("kernel", pathlib.Path("kernel.ptx"), [], {}, 256, 64)
# Statements of inline assembly share lines.
WARPGROUPS = """
.visible .entry kernel()
{
	.reg .pred 	%p<4>;

	mbarrier.init.shared.b64 	[bars+8], %r9;
	cp.async.mbarrier.arrive.noinc.shared.b64 	[%r3];
	setmaxnreg.inc.sync.aligned.u32 	240;
	// begin inline asm
	{
	.reg .pred P1;
	LAB_WAIT:
	mbarrier.try_wait.parity.shared.b64 P1, [%r1], %r2, 100;
	@P1 bra.uni DONE;
	bra.uni LAB_WAIT;
	DONE:
}
	// end inline asm
	{ .reg .b64 b; wgmma.fence.sync.aligned; add.s64 b, %rd1, 0; STEP add.s64 b, %rd1, 2; STEP add.s64 b, %rd1, 4; STEP wgmma.commit_group.sync.aligned; }
	wgmma.wait_group.sync.aligned 1;
	@%p1 bra 	$L__BB0_2;
	mbarrier.arrive.shared.b64 	%rd2, [%r3];
$L__BB0_2:
	add.f32 	%f1, %f1, %f1;
	mbarrier.arrive.expect_tx.shared.b64 	%rd3, [%r4], 8192;
	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd4, {%r6, %r7}], [%r4];
	ret;
}
""".replace("STEP", "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
            "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r10, %r11, %r12, "
            "%r13}, b, p, 1, 1, 1;").splitlines()


def texts(group, lines=KERNEL, ordinals=(0, 1)):
    """Edit -> the lines it changes, of the mutants of one group."""
    return {m.edit: [text.strip() for _, text in m.changes]
            for m in mutations.mutants(LAUNCH, lines)
            if m.group == group and m.ordinal in ordinals}


class PtxTest(unittest.TestCase):
    def test_statements(self):
        statements = ptx.statements(KERNEL)
        self.assertEqual(len(statements), 14)
        product = statements[8]
        self.assertEqual((product.first, product.last), (15, 19))
        self.assertEqual(product.operands[2], "{%r12, %r13}")
        self.assertEqual(statements[11].guard.strip(), "@%p2")

    def test_loops(self):
        loop, = ptx.loops(KERNEL)
        self.assertEqual([s.opcode for s in loop][:3],
                         ["setp.lt.s64", "selp.f32", "cp.async.wait_group"])
        self.assertEqual(loop[-1].opcode, "bra")

    def test_iterations(self):
        # The loop is entered in its middle, and may leave a statement out.
        at = KERNEL.index("$L__BB0_1:") + 1
        lines = [*KERNEL[:at], "\t@%p1 bra \t$L__BB0_2;", *KERNEL[at:]]
        longest, = ptx.iterations(lines, lambda s: (1,))
        self.assertEqual([s.opcode for s in longest],
                         ["cp.async.wait_group", "bar.sync", PRODUCT, PRODUCT,
                          "setp.ne.s64", "bra", "bra", "setp.lt.s64",
                          "selp.f32"])
        shortest, = ptx.iterations(lines, lambda s: (-1,))
        self.assertEqual(shortest, longest[:-2])

    def test_no_loop(self):
        straight = [line for line in KERNEL if "@%p2" not in line]
        self.assertEqual(ptx.loops(straight), [])


class MutationsTest(unittest.TestCase):
    def test_copies(self):
        edits = texts("cp.async")
        self.assertEqual(edits["delete"], [""])
        self.assertIn("[%r1+48], [%rd1], 16, %r2;", edits["to+32"][0])
        self.assertIn("[%r1+16], [%rd1+256]", edits["from+row"][0])
        self.assertIn("[%rd1], 16, 16;", edits["no-zero-fill"][0])

    def test_synchronisation(self):
        self.assertEqual(texts("bar.sync"), {"delete": [""]})
        self.assertEqual(texts("cp.async.wait_group")["one-more"],
                         ["cp.async.wait_group 1;"])
        self.assertEqual(texts("cp.async.commit_group")["twice"],
                         ["cp.async.commit_group ;\tcp.async.commit_group ;"])

    def test_products(self):
        edits = texts("mma")
        self.assertIn("{%r25, %r24, %r26, %r27}", edits["swap-a0-a1"][0])
        self.assertIn("{%r29, %r28}", edits["swap-b0-b1"][0])
        second, first = edits["swap-steps-a"]
        self.assertIn("{%r8, %r9, %r10, %r11}, {%r28, %r29}", second)
        self.assertIn("{%r24, %r25, %r26, %r27}, {%r12, %r13}", first)

    def test_control(self):
        self.assertEqual(texts("guard")["negate"], ["@!%p2 bra $L__BB0_1;"])
        self.assertEqual(texts("guard")["remove"], ["bra $L__BB0_1;"])
        self.assertIn("setp.le.s64", texts("setp")["lt-le"][0])

    def test_lines_stay(self):
        for lines in KERNEL, WARPGROUPS:
            for mutant in mutations.mutants(LAUNCH, lines):
                mutated = mutant.apply(lines).splitlines()
                self.assertEqual(len(mutated), len(lines), mutant.key)
                self.assertNotEqual(mutated, lines, mutant.key)


class WarpgroupMutationsTest(unittest.TestCase):
    def texts(self, group, ordinals=(0,)):
        return texts(group, WARPGROUPS, ordinals)

    def opcodes(self, group, edit):
        """Of the line with the products, after an edit."""
        mutant, = (m for m in mutations.mutants(LAUNCH, WARPGROUPS)
                   if m.group == group and m.edit == edit)
        lines = mutant.apply(WARPGROUPS).splitlines()
        row, = (i for i, line in enumerate(WARPGROUPS) if "commit" in line)
        return [s.opcode.partition(".sync")[0] for s in ptx.statements(lines)
                if s.first == row]

    def test_statements(self):
        statements = ptx.statements(WARPGROUPS)
        self.assertEqual([s.opcode for s in statements if s.guard],
                         ["bra.uni", "bra"])
        fence, = (s for s in statements if s.opcode.startswith("wgmma.fence"))
        line = WARPGROUPS[fence.first]
        self.assertEqual(line[fence.begin:fence.end],
                         "wgmma.fence.sync.aligned;")

    def test_products(self):
        edits = self.texts("wgmma.mma_async")
        self.assertIn("{%r11, %r10, %r12, %r13}", edits["swap-a0-a1"][0])
        self.assertIn("add.s64 changed, b, 64;", edits["b+1024"][0])
        self.assertIn("m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, ",
                      edits["n-8"][0])
        self.assertTrue(edits["trans-b"][0].endswith("1, 1, 0;"))
        self.assertIn("not.pred other, p;", edits["scale-d"][0])
        self.assertEqual(self.texts("wgmma.mma_async", [1]), {"delete": [""]})

    def test_queue(self):
        step, add = "wgmma.mma_async", "add.s64"
        commit, fence = "wgmma.commit_group", "wgmma.fence"
        self.assertEqual(self.opcodes(fence, "behind-step"),
                         [add, step, fence, add, step, add, step, commit])
        self.assertEqual(self.opcodes(commit, "before-step"),
                         [fence, add, step, add, step, add, commit, step])
        wait = self.texts("wgmma.wait_group")
        self.assertEqual(wait["one-more"],
                         ["wgmma.wait_group.sync.aligned 2;"])
        self.assertEqual(wait["one-less"],
                         ["wgmma.wait_group.sync.aligned 0;"])
        # Past the arrival of a single thread.
        self.assertEqual(wait["behind-arrive"],
                         ["", "wgmma.wait_group.sync.aligned 1;\t"
                          "add.f32 %f1, %f1, %f1;"])

    def test_mbarriers(self):
        self.assertIn("add.s32 changed, %r9, -1;",
                      self.texts("mbarrier.init")["count-1"][0])
        wait = self.texts("mbarrier.try_wait")
        self.assertEqual(wait["delete"], ["setp.eq.s32 P1, 0, 0;"])
        self.assertIn("xor.b32 changed, %r2, 1;", wait["parity"][0])
        expected = self.texts("mbarrier.arrive.expect_tx")
        self.assertIn("[%r4], 8064;", expected["bytes-128"][0])
        self.assertIn("[%r4+8], 8192;", expected["at+8"][0])
        self.assertEqual(self.texts("setmaxnreg")["count-8"],
                         ["setmaxnreg.inc.sync.aligned.u32 232;"])

    def test_arrivals_behind_copies(self):
        edits = self.texts("cp.async.mbarrier.arrive")
        self.assertEqual(edits["count"],
                         ["cp.async.mbarrier.arrive.shared.b64 [%r3];"])
        self.assertEqual(edits["at-once"],
                         ["mbarrier.arrive.shared.b64 _, [%r3];"])
        self.assertIn("[%r3+8];", edits["at+8"][0])

    def test_bulk_copies(self):
        edits = self.texts("bulk-load")
        self.assertIn("[%rd4, {%r6, moved}], [%r4];", edits["axis-1+1"][0])
        self.assertIn("[%r5+1024], ", edits["to+1024"][0])
        self.assertIn("}], [%r4+8];", edits["tells+8"][0])


WMMA = """
.visible .entry kernel()
{
	mov.u32 	%r1, %tid.x;
	cvt.u64.u32 	%rd2, %r1;
	shr.u64 	%rd3, %rd2, 5;
	shr.u64 	%rd4, %rd2, 2;
$L__BB0_1:
	wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 	{%r8, %r9}, [%r2], 16;
	wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 	{%r10, %r11}, [%r3+32], 16;
	wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32
		{%r4, %r5}, {%r8, %r9}, {%r10, %r11}, {%r6, %r7};
	wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 	[%r2],{%r4, %r5}, 16;
	setp.eq.ftz.f32 	%p2, %r16, 0fFF800000;
	selp.f32 	%r17, 0f80000000, %r18, %p2;
	selp.f32 	%r19, 0f80000000, %r18, %p3;
	mul.rn.ftz.f32 	%r20, %r24, %r21;
	ld.shared.v2.b32 	{%r22, %r23}, [%r2];
	add.rn.ftz.f32 	%r24, %r20, %r23;
	add.rn.ftz.f32 	%r25, %r20, %r19;
	@%p2 bra 	$L__BB0_1;
	cp.async.cg.shared.global [%r13], [%rd29], 16, 16;
	st.global.v4.b32 	[%rd4+8], {%r1, %r2, %r3, %r4};
	ret;

}
""".splitlines()


class WmmaTest(unittest.TestCase):
    def edits(self, group):
        return {edit: lines[0] for edit, lines in
                texts(group, WMMA, ordinals=(0,)).items()}

    def test_layouts(self):
        self.assertIn("wmma.mma.sync.aligned.col.col.",
                      self.edits("wmma.mma")["layout-a"])
        self.assertIn("wmma.mma.sync.aligned.row.row.",
                      self.edits("wmma.mma")["layout-b"])
        self.assertIn("wmma.load.a.sync.aligned.col.m16n16k16.shared.f16 "
                      "{%r8, %r9}, [%r2], 16;",
                      self.edits("wmma.load")["layout"])
        self.assertIn("[%r2+32]", self.edits("wmma.load")["from+32"])
        self.assertIn("[%r2+64]", self.edits("wmma.load")["from+row"])
        self.assertIn("{%r5, %r4}", self.edits("wmma.store")["swap-0-1"])


class AncestorsTest(unittest.TestCase):
    STATEMENTS = ptx.statements(WMMA)

    def changed(self, change, statements=None):
        return [(old.opcode, new.strip())
                for old, new in change(statements or self.STATEMENTS)]

    def test_edits(self):
        changed = self.changed
        (_, text), = changed(ancestors._add_by_atomics)
        self.assertEqual(text.count("red.global.add.noftz.f16x2"), 4)
        self.assertIn("[%rd4+20], %r4;", text)
        self.assertEqual(changed(ancestors._share_rows),
                         [("shr.u64", "mov.b64 %rd3, 0;")])
        (_, load), (_, product) = changed(ancestors._turn_keys_and_products)
        self.assertIn("wmma.load.b.sync.aligned.row.", load)
        self.assertIn("wmma.mma.sync.aligned.row.row.", product)
        self.assertEqual(changed(ancestors._forget_empty_rows),
                         [("selp.f32", "mov.b32 %r17, %r18;")])
        (_, copy), = changed(ancestors._copy_half)
        self.assertIn("[%r13], [%rd29], 8, 8;", copy)
        self.assertEqual(changed(ancestors._store_all_rows), [("bra", "")])
        loop, = ptx.loops(WMMA)
        self.assertEqual(changed(ancestors._overwrite_sums, loop),
                         [("add.rn.ftz.f32", "mov.b32 %r24, %r23;")])

    def test_failures(self):
        for text, expected in {
            "FAIL, lse 1e-7 of 1e-3 allowed\n": "O is wrong, LSE is right",
            "FAIL, lse 2e-3 of 1e-3 allowed\n": "O is wrong, as LSE is",
            "FAIL\n  O holds 160 NaN in 640 elements":
                "O holds 160 NaN in 640 elements",
            "run: error: expects every element of 'o' to be written\n":
                "expects every element of 'o' to be written",
            "note: k.ptx:679: out-of-bounds: 4 bytes past\n  in k":
                "out-of-bounds: 4 bytes past"}.items():
            self.assertEqual(ancestors.failure(text), expected)

    def test_bugs_must_be_named(self):
        bug = ancestors.Bug("bug", "group", "scalar", "edit", {"ptxas": "big"})
        problems = lambda good, says: list(
            ancestors.problems_of(bug, good, says))
        self.assertEqual(problems({}, {"ptxas": "too big"}), [])
        self.assertEqual(problems({}, {"flashcore-run": "FAIL"}),
                         ["bug: expects 'big' of ptxas, but got 'nothing'"])
        self.assertEqual(problems({"ptxas": "odd"}, {"ptxas": "too big"}),
                         ["bug: expects nothing of the kernel as compiled, but "
                          "ptxas says 'odd'"])

    def test_record(self):
        record = lambda says: {"bug": {"edit": "edit", "says": says}}
        differences = lambda old, new: len(list(
            ancestors.differences(old, new, True)))
        words, others = record({"ptxas": "a"}), record({"ptxas": "b"})
        self.assertEqual(differences(words, others), 0)
        self.assertEqual(differences(words, record({})), 1)
        self.assertEqual(differences(words, {}), 1)
        self.assertEqual(differences(record({"flashcore-run": "a"}),
                                     record({"flashcore-run": "b"})), 1)

    def test_table(self):
        bugs = {"bug": {"group": "NaN", "schedule": "scalar", "edit": "edit",
                        "named by": ["ptxas"], "says": {"ptxas": "big"}}}
        self.assertIn("| NaN | `scalar` | edit | `ptxas`: `big` | "
                      "`flashcore-emu`: nothing<br>`flashcore-run`: nothing |",
                      figures.bugs_table(bugs))

    def test_checksum(self):
        self.assertEqual(ancestors.fnv1a64(b"a"), 0xaf63dc4c8601ec8c)


class MutantsTest(unittest.TestCase):
    def setUp(self):
        self.mutant = mutations.Mutant("kernel", "mma", 4, "swap-a0-a1", [])

    def entry(self, text):
        return mutants.Entry(1, *text.split())

    def test_entries(self):
        for text, expected in {"kernel mma 2,4-5 swap-a0-a1 wrong": True,
                               "* mma * * silent": True,
                               "kernel mma 2,5-6 swap-a0-a1 wrong": False,
                               "other mma 4 swap-a0-a1 wrong": False,
                               "kernel mma 4 swap-b0-b1 wrong": False}.items():
            self.assertEqual(self.entry(text).matches(self.mutant), expected,
                             text)

    def mutant_at(self, ordinal):
        return mutations.Mutant("kernel", "mma", ordinal, "swap-a0-a1", [])

    def test_stale_lines(self):
        # Every mutant that is named must exist and end as the line says.
        entry = self.entry("kernel mma 2-5 swap-a0-a1 wrong")
        for ordinal, outcome in {2: "wrong", 3: "reported"}.items():
            entry.see(self.mutant_at(ordinal), outcome)
        self.assertEqual(entry.stale([]), ["3", "4", "5"])
        self.assertEqual(entry.stale([self.mutant_at(4)]), ["3", "5"])
        entry = self.entry("* mma * * silent")
        self.assertEqual(entry.stale([]), ["any mutant"])
        self.assertEqual(entry.stale([self.mutant]), [])
        entry.see(self.mutant, "wrong")
        self.assertEqual(entry.stale([]), ["any mutant"])
        entry.see(self.mutant, "silent")
        self.assertEqual(entry.stale([]), [])

    def test_figures(self):
        reported = mutants.Outcome("reported", ("layout-mismatch", "trap"))
        results = [(self.mutant_at(0), {"lazy": reported}),
                   (self.mutant_at(1), {"lazy": mutants.Outcome("silent")}),
                   (self.mutant_at(2), {"lazy": mutants.Outcome("wrong")})]
        text = figures.table(figures.collect(results, mutants.strongest))
        self.assertIn("3 mutants of 1 kernels:", text)
        self.assertIn("mma deleted | 3 | 1: layout 1 | 1 | 1 |", text)

    def test_strongest(self):
        reported = mutants.Outcome("reported", ("shared-race",))
        outcomes = {"lazy": mutants.Outcome("silent"), "random": reported}
        self.assertEqual(mutants.strongest(outcomes), reported)


class ContractsTest(unittest.TestCase):
    def test_mask_code(self):
        loop, = contracts.tile_loops(KERNEL)
        self.assertEqual(loop.mask_code, 1)
        sizes = [line.replace("selp.f32 	%r3, 0fFF800000, %r3",
                              "selp.b32 	%r3, 16, 0") for line in KERNEL]
        self.assertEqual(contracts.tile_loops(sizes)[0].mask_code, 0)

    def problems(self, lines, line, **counters):
        loops = contracts.tile_loops(lines)
        counters = {"line": line, "shared_wavefronts": 4,
                    "shared_wavefronts_ideal": 4, "global_sectors": 8,
                    "global_sectors_ideal": 8, **counters}
        return list(contracts.check_loops(LAUNCH, loops,
                                          {"lines": [counters]}))

    def test_loop_contracts(self):
        clean = [line for line in KERNEL if "selp" not in line]
        inside = KERNEL.index("	bar.sync 	0;")
        self.assertEqual(self.problems(clean, inside), [])
        self.assertEqual(self.problems(clean, 6, shared_wavefronts=5), [])
        self.assertEqual(
            self.problems(clean, inside, shared_wavefronts=5),
            [f"kernel: kernel.ptx:{inside}: expects 4 shared_wavefronts in a "
             "loop over key tiles, but got 5"])
        self.assertEqual(
            self.problems(KERNEL, inside),
            ["kernel: expects a loop over key tiles in which a full tile takes "
             "no mask code, but got 1 selections in the one at line 11"])
        at = KERNEL.index("$L__BB0_1:") + 1
        branch = [*KERNEL[:at], "\t@%p1 bra \t$L__BB0_2;", *KERNEL[at:]]
        self.assertEqual(self.problems(branch, inside + 1), [])

    def test_comparison(self):
        self.assertEqual(list(contracts.compare("k", {"mma": 8}, {"mma": 8})),
                         [])
        self.assertEqual(list(contracts.compare("k", {"mma": 8}, {"mma": 10})),
                         ["k: mma: 8 -> 10 (+25.0 %)"])
        self.assertEqual(list(contracts.compare("k", {}, {"mma": 10})),
                         ["k: mma: 0 -> 10"])


class LaunchTest(unittest.TestCase):
    TENSOR = Tensor("k", "input", "f16", ("b", "h", "s", "d"), (None,) * 4, None)
    DIMS = {"b": 2, "h": 3, "s": 5, "d": 16}

    def place(self, padding, layout, tensor=TENSOR):
        return emulation.place(tensor, self.DIMS, padding, layout)

    def test_strides(self):
        self.assertEqual(self.place(0, "bhsd"), ((240, 80, 16, 1), 0))
        self.assertEqual(self.place(8, "bhsd"), ((360, 120, 24, 1), 8))
        self.assertEqual(self.place(0, "bshd"), ((240, 16, 48, 1), 0))

    def test_what_is_fixed_stays(self):
        fixed = dataclasses.replace(self.TENSOR, strides=(None, 99, None, 1),
                                    offset=3)
        self.assertEqual(self.place(8, "bhsd", fixed), ((360, 99, 24, 1), 3))
        bias = dataclasses.replace(self.TENSOR, name="bias")
        self.assertEqual(self.place(8, "bshd", bias), ((240, 80, 16, 1), 0))


if __name__ == "__main__":
    unittest.main()
