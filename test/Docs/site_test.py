"""Tests of scripts/site_hooks.py: every page is in the site, and its links lead
to pages of the site. mkdocs itself checks the rest (scripts/site.sh)."""
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import markdown_fences
import site_hooks


class Rewriting(unittest.TestCase):
    def rewrite(self, text, name="docs/Page.md", target="Page.md"):
        return site_hooks.rewrite(text, name, target)

    def test_links(self):
        self.assertEqual(self.rewrite("[a](Op.md#b)"), "[a](Op.md#b)")
        self.assertEqual(self.rewrite("[a](docs/Op.md)", "README.md", "index.md"), "[a](Op.md)")
        self.assertEqual(self.rewrite("![a](figures/b.png)"), "![a](figures/b.png)")
        self.assertEqual(self.rewrite("[a](../README.md)"), "[a](index.md)")
        self.assertEqual(self.rewrite("[a](../benchmarks/README.md)"), "[a](benchmarks.md)")
        self.assertEqual(self.rewrite("[a](../docs/Op.md)", "benchmarks/README.md", "benchmarks.md"), "[a](Op.md)")
        self.assertEqual(self.rewrite("[a](../Op.md)", "docs/x/Page.md", "x/Page.md"), "[a](../Op.md)")
        self.assertEqual(self.rewrite("[a](https://x.y/z) [b](#c)"), "[a](https://x.y/z) [b](#c)")

    def test_what_is_no_page_is_text(self):
        self.assertEqual(self.rewrite("see [the file](../scripts/test.sh), [this](examples/lse.mlir)"), "see the file, this")

    def test_marks_go(self):
        self.assertEqual(self.rewrite("a\n\n<!-- check: none: x -->\n```sh\nb\n```\n"), "a\n\n```sh\nb\n```\n")

    def test_fences_stay(self):
        fence = "```\n[a](../scripts/test.sh)\nx\n* y\n```\n"
        self.assertEqual(self.rewrite(fence), fence)

    def test_lists_and_tables_stand_alone(self):
        self.assertEqual(self.rewrite("a\n* b\n* c\n  d\n* e\n"), "a\n\n* b\n* c\n  d\n* e\n")
        self.assertEqual(self.rewrite("a\n| b |\n|---|\n"), "a\n\n| b |\n|---|\n")


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="flashcore-site-")
        site_hooks.OUT = pathlib.Path(cls.folder.name) / "site-docs"
        cls.config = site_hooks.on_config(types.SimpleNamespace(nav=None))
        cls.pages = {path.relative_to(site_hooks.OUT).as_posix()
                     for path in site_hooks.OUT.rglob("*") if path.suffix in (".md", ".ipynb")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_page_has_its_place(self):
        home, *sections = self.config.nav
        named = [page for section in sections for pages in section.values() for page in pages]
        self.assertEqual(home, {"FlashCore": "index.md"})
        self.assertEqual([next(iter(section)) for section in sections], ["Use", "Embed", "Work on it"])
        self.assertEqual(sorted([*named, "index.md"]), sorted(self.pages), "expects README.md to name every page under More, once")

    def test_links_lead_to_pages(self):
        for page in self.pages:
            if not page.endswith(".md"):
                continue
            path = site_hooks.OUT / page
            for line, target in markdown_fences.links(path.read_text()):
                file = target.partition("#")[0]
                if ":" not in target and file:
                    self.assertTrue((path.parent / file).exists(), f"{page}:{line}: {target}")


if __name__ == "__main__":
    unittest.main()
