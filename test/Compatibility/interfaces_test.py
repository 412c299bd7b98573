"""Tests of scripts/interfaces.py: what breaks programs is told from what adds."""

import ast
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import interfaces

OLD = {
    "library": "libflashcore.so.0",
    "function flashcoreA": "void (int)",
    "enum FlashCoreE.FlashCoreEOne": "1",
    "struct FlashCoreS": "16 bytes, alignment 8",
    "struct FlashCoreS.a": "offset 0, int64_t",
    "flashcore.f": "function",
    "flashcore.f(q)": "positional 0",
}


class CompareTest(unittest.TestCase):
    def breaks(self, **changes):
        """Of facts that are changed, or None where they are gone."""
        new = {fact: what for fact, what in {**OLD, **changes}.items() if what}
        return interfaces.compare(OLD, new)

    def test_what_breaks(self):
        for fact, what in {
            "function flashcoreA": None,
            "enum FlashCoreE.FlashCoreEOne": "2",
            "struct FlashCoreS": "24 bytes, alignment 8",
            "struct FlashCoreS.b": "offset 12, int32_t",
            "flashcore.f(q)": "positional 1",
            "flashcore.f(k)": "positional 1",
            "flashcore.f": None,
        }.items():
            breaks, additions = self.breaks(**{fact: what})
            self.assertEqual((len(breaks), additions), (1, []), fact)
        self.assertEqual(
            self.breaks(**{"function flashcoreA": "void (long)"})[0],
            ["expects function flashcoreA: void (int), but got void (long)"],
        )

    def test_what_adds(self):
        for fact, what in {
            "function flashcoreB": "void (void)",
            "enum FlashCoreE.FlashCoreETwo": "2",
            "struct FlashCoreT": "8 bytes, alignment 8",
            "flashcore.g": "function",
            "flashcore.f(scale)": "keyword, optional",
            "flashcore.f": "function, deprecated since 0.2",
        }.items():
            breaks, additions = self.breaks(**{fact: what})
            self.assertEqual((breaks, len(additions)), ([], 1), fact)

    def against(self, old, new):
        """The exit code, where `old` and `new` are of both files."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name in new:
                interfaces.write(folder / name, old)
            with contextlib.redirect_stdout(io.StringIO()):
                return interfaces.check_against(folder, new)

    def test_a_release_may_follow_another(self):
        deprecated = {**OLD, "flashcore.f(q)": "positional 0, deprecated since 0.1"}
        gone = {fact: what for fact, what in OLD.items() if fact != "flashcore.f(q)"}
        self.assertEqual(self.against(OLD, {"python.txt": OLD}), 0)
        self.assertEqual(self.against(OLD, {"python.txt": gone}), 1)
        self.assertEqual(self.against(deprecated, {"python.txt": gone}), 0)
        # Programs do not load a library of another name.
        changed = {**OLD, "function flashcoreA": "void (long)"}
        renamed = {**changed, "library": "libflashcore.so.1"}
        self.assertEqual(self.against(OLD, {"c.txt": changed}), 1)
        self.assertEqual(self.against(OLD, {"c.txt": renamed}), 0)


class RecordTest(unittest.TestCase):
    def test_layouts_are_read(self):
        text = """
*** Dumping AST Record Layout
         0 | struct FlashCoreS
         0 |   int64_t[5] sizes
        40 |   const char * name
           | [sizeof=48, align=8]
"""
        self.assertEqual(
            dict(interfaces.structs(text)),
            {
                "struct FlashCoreS": "48 bytes, alignment 8",
                "struct FlashCoreS.sizes": "offset 0, int64_t[5]",
                "struct FlashCoreS.name": "offset 40, const char *",
            },
        )

    def test_parameters_are_read(self):
        (function,) = ast.parse("def f(self, a, b=1, *rest, c, d=None, **more): pass").body
        self.assertEqual(
            dict(interfaces.parameters("f", function)),
            {
                "f(a)": "positional 1",
                "f(b)": "positional 2, optional",
                "f(c)": "keyword",
                "f(d)": "keyword, optional",
                "f(*)": "any, optional",
                "f(**)": "any, optional",
            },
        )


if __name__ == "__main__":
    unittest.main()
