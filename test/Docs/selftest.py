"""Tests of scripts/check-docs.py and what it is made of: each rule accepts what
is so and refuses what is not. The first argument is the folder of the tools."""
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "scripts"))
import excerpts
import markdown_fences

OUTPUT = """
gpu.func @f(%arg0: memref<f16> {llvm.align = 16 : i32}) {
  %0 = fcgpu.alloc_ring : <2x64x64xf16>
  %1 = fcgpu.alloc_ring : <2x64x64xf16>
  scf.for %arg1 = %c0 to %c4 step %c1 {
    gpu.barrier
    %2 = fcgpu.read %0[%arg1] : <2x64x64xf16> -> vector<64x64xf16>
  }
  scf.for %arg1 = %c0 to %c4 step %c1 {
    %3 = fcgpu.read %1[%arg1] : <2x64x64xf16> -> vector<64x64xf16>
  }
  gpu.return
}
"""


class IR(unittest.TestCase):
    def expect(self, excerpt, message=None):
        found = excerpts.match_ir(textwrap.dedent(excerpt), OUTPUT)
        if message is None:
            self.assertIsNone(found)
        else:
            self.assertEqual(found, message)

    def test_lines_in_order_with_gaps_and_other_names(self):
        self.expect("""
            gpu.func @f(...) {
              %ring_k = fcgpu.alloc_ring : <2x64x64xf16>
              scf.for %i = ... {
                gpu.barrier   // a comment
                %k = fcgpu.read %ring_k[%i] : ...""")

    def test_a_line_goes_on(self):
        self.expect("""
            gpu.func @f(%q: memref<f16>
                {llvm.align = 16 : i32}) {
            gpu.return""", "expects the line 'gpu.return' after 'gpu.func @f(%arg0: memref<f16> {llvm.align = 16 : i32}) {', "
                           "but the output has no such line there")

    def test_another_token(self):
        self.expect("%k = fcgpu.read %ring[%i] : <3x64x64xf16> -> ...",
                    "expects the line '%k = fcgpu.read %ring[%i] : <3x64x64xf16> -> ...', but the output has no such line there\n"
                    "  note: it has '%2 = fcgpu.read %0[%arg1] : <2x64x64xf16> -> vector<64x64xf16>'\n"
                    "  note: it has '%3 = fcgpu.read %1[%arg1] : <2x64x64xf16> -> vector<64x64xf16>'")

    def test_another_order(self):
        self.expect("""
            %k = fcgpu.read ...
            %ring = fcgpu.alloc_ring ...""",
                    "expects the line '%ring = fcgpu.alloc_ring ...' after '%2 = fcgpu.read %0[%arg1] : <2x64x64xf16> -> "
                    "vector<64x64xf16>', but the output has no such line there")

    def test_a_name_stands_for_one_value(self):
        self.expect("""
            %ring = fcgpu.alloc_ring ...
            scf.for %i = ... {
              %k = fcgpu.read %ring[%i] : ...
            }
            scf.for %j = ... {
              %v = fcgpu.read %ring[%j] : ...""",
                    "expects the line '%v = fcgpu.read %ring[%j] : ...' after 'scf.for %arg1 = %c0 to %c4 step %c1 {', but the "
                    "output has no such line there\n  note: it has '%3 = fcgpu.read %1[%arg1] : <2x64x64xf16> -> vector<64x64xf16>'")

    def test_another_region(self):
        self.expect("""
            scf.for %i = ... {
              gpu.barrier
              %v = fcgpu.read %ring[%i] : ...
              %w = fcgpu.read ...""",
                    "expects the line '%w = fcgpu.read ...' after '%2 = fcgpu.read %0[%arg1] : <2x64x64xf16> -> "
                    "vector<64x64xf16>', but the output has no such line there")

    def test_nothing_shown(self):
        self.expect("...", "expects an excerpt, but got no line of IR")


class Text(unittest.TestCase):
    def test_wildcards(self):
        self.assertIsNone(excerpts.match_text("a ... c\n...\nz\n", "a b c\nx\ny\nz\n"))
        self.assertIsNone(excerpts.match_text("...\nz\n", "z\n"))

    def test_gaps_are_marked(self):
        self.assertEqual(excerpts.match_text("a\nz\n", "a\nb\nz\n"), "expects the line 'z', but the output is\n  | a\n  | b\n  | z\n")

    def test_more_output(self):
        self.assertEqual(excerpts.match_text("a\n", "a\nb\n"), "expects the end, but the output is\n  | a\n  | b\n")


class JSON(unittest.TestCase):
    def expect(self, shown, actual, message=None):
        self.assertEqual(excerpts.match_json(excerpts.parse_json(shown), actual), message)

    def test_wildcards(self):
        self.expect('{"a": ..., "b": [1, ..., 3], "c": {"d": null, ...}}', {"a": 5, "b": [1, 2, 3], "c": {"d": None, "e": 1}})
        self.expect('"b": [..., {"x": 1, ...}]', {"a": 0, "b": [0, {"x": 1, "y": 2}]})

    def test_keys(self):
        self.expect('{"a": 1}', {"a": 1, "b": 2}, "lacks key 'b' of the document")
        self.expect('{"a": {"b": 1}}', {"a": {}}, "shows key 'b' of 'a' of the document")

    def test_values(self):
        self.expect('{"a": 1}', {"a": True}, "shows 1 as 'a' of the document, but it is true")
        self.expect('{"a": [1, 2]}', {"a": [1]}, "shows 2 elements of 'a' of the document, but it has 1")
        self.expect('{"a": [..., 2]}', {"a": [1]}, "shows 2 in 'a' of the document, but it has no such element there")


class Marks(unittest.TestCase):
    def marks(self, mark, language="sh"):
        return next(markdown_fences.fences(f"<!-- check: {mark} -->\n```{language}\ntext\n```\n")).marks

    def test_marks(self):
        self.assertEqual(self.marks("nightly, exit 1"), {"nightly": "", "exit": "1"})
        self.assertEqual(self.marks("none: no, not here"), {"none": "no, not here"})
        self.assertEqual(self.marks("body of %a: i32, %b: i32", "mlir"), {"body": "of %a: i32, %b: i32"})

    def test_unknown(self):
        with self.assertRaisesRegex(markdown_fences.MarkError, r"^3: expects a mark of 'sh' \(nightly, fresh, gpu, package, exit \.\.\., "
                                                               r"none: \.\.\.\), but got 'later'$"):
            self.marks("later")
        with self.assertRaisesRegex(markdown_fences.MarkError, "but got 'none:'$"):
            self.marks("none:")

    def test_a_fence_in_a_fence(self):
        fences = list(markdown_fences.fences("````\n```sh\nx\n```\n````\n"))
        self.assertEqual([(fence.language, fence.text) for fence in fences], [("", "```sh\nx\n```\n")])

    def test_json_needs_one(self):
        with self.assertRaisesRegex(markdown_fences.MarkError, "expects a mark that says what this JSON is checked against"):
            list(markdown_fences.fences("```json\n{}\n```\n"))


class Pages(unittest.TestCase):
    """The whole checker on pages of its own."""

    def check(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(textwrap.dedent(text))
            result = subprocess.run([sys.executable, ROOT / "scripts/check-docs.py", f"--bin={TOOLS}", *options, page],
                                    capture_output=True, text=True)
        return result.returncode, result.stdout.replace(str(pathlib.Path(folder).resolve()), "").split("page.md:", 1)[1]

    def test_good_page(self):
        code, output = self.check("""
            <!-- check: file name.txt -->
            ```
            content
            ```

            ```sh
            cat name.txt
            ```

            <!-- check: output -->
            ```
            con...
            ```

            <!-- check: exit 3 -->
            ```sh
            exit 3
            ```

            <!-- check: gpu -->
            ```sh
            exit 1
            ```
            """)
        self.assertEqual((code, output), (0, " 3 snippets are as shown\n"))

    def test_sum_of_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = [pathlib.Path(folder) / name for name in ("one.md", "two.md", "none.md")]
            for page, snippets in zip(pages, (2, 1, 0)):
                page.write_text("```sh\ntrue\n```\n\n" * snippets)
            result = subprocess.run([sys.executable, ROOT / "scripts/check-docs.py", f"--bin={TOOLS}", *pages],
                                    capture_output=True, text=True)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines()[-1], "3 snippets of 2 pages")

    def test_failing_command(self):
        code, output = self.check("```sh\necho why; false; true\n```\n")
        self.assertEqual((code, output), (1, "2: expects exit code 0, but got 1; the output is\n  | why\n\n"))

    def test_slow_command(self):
        code, output = self.check("```sh\nsleep 60 & wait\n```\n", "--limit=1")
        self.assertEqual((code, output), (1, "2: takes more than 1 s: shorten it, or mark it 'nightly'\n"))

    def test_command_that_writes_elsewhere(self):
        code, output = self.check("```sh\necho x > /tmp/y\n```\n")
        self.assertEqual((code, output), (1, "2: expects paths in the source tree, where a check may write, but got /tmp/y\n"))

    def test_bad_ir(self):
        code, output = self.check("```mlir\nfunc.func @f(%x: !t)\n```\n")
        self.assertEqual(code, 1)
        self.assertIn("2: flashcore-opt refuses it\n  | <stdin>:1:20: error: undefined symbol alias id 't'\n", output)

    def test_links_and_paths(self):
        code, output = self.check("[a](b.md) [c](#d)\n`scripts/none.sh`\n\n# D\n")
        self.assertEqual(code, 1)
        self.assertEqual([line.rpartition("page.md:")[2] for line in f"page.md:{output}".splitlines()],
                         ["1: links to b.md, but there is no such file", "2: names scripts/none.sh, but there is no such file"])


if __name__ == "__main__":
    unittest.main()
