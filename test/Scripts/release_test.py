"""Tests of scripts/release.sh --check in a small repository, and of what it takes
from CHANGELOG.md."""

import datetime
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import changelog

SCRIPTS = ("changelog.py", "interfaces.py", "marked_blocks.py", "nightly-table.py", "nightly.sh", "release.sh")
TODAY = datetime.date.today()
TEXT = """# Changelog

Newest first.

## Unreleased

### Tools
- **One** thing ([docs/A.md](docs/A.md#b)), see [its page](https://example.org/a).

## 0.0.9, 2026-01-02

### Tools
- An older one.
"""


class ChangelogTest(unittest.TestCase):
    def test_unreleased_becomes_the_version(self):
        text = changelog.release(TEXT, "0.1.0", "2026-11-27")
        self.assertEqual(text, TEXT.replace("Unreleased", "0.1.0, 2026-11-27"))
        with self.assertRaisesRegex(changelog.Failure, "no section 0.1.0 before its release"):
            changelog.release(text, "0.1.0", "2026-11-28")
        with self.assertRaisesRegex(changelog.Failure, "says what is new, but got none"):
            changelog.release(text, "0.2.0", "2026-11-28")

    def test_an_empty_section_is_none(self):
        with self.assertRaisesRegex(changelog.Failure, "says what is new, but got none"):
            changelog.release("# Changelog\n\n## Unreleased\n\n## 0.0.9, 2026-01-02\n- a\n", "0.1.0", "2026-11-27")

    def test_notes_are_of_one_version(self):
        text = changelog.release(TEXT, "0.1.0", "2026-11-27")
        self.assertEqual(
            changelog.notes(text, "0.1.0"),
            "# FlashCore 0.1.0, 2026-11-27\n\n## Tools\n"
            "- **One** thing (docs/A.md), see [its page](https://example.org/a).\n",
        )
        self.assertIn("An older one.", changelog.notes(text, "0.0.9"))
        with self.assertRaisesRegex(changelog.Failure, "expects a section of 0.3.0, but got 0.1.0"):
            changelog.notes(text, "0.3.0")

    def test_ours_can_be_released(self):
        text = (ROOT / "CHANGELOG.md").read_text()
        if "## Unreleased" in text:
            text = changelog.release(text, "99.0.0", TODAY)
            self.assertGreater(len(changelog.notes(text, "99.0.0")), 100)


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("scripts", "docs", "test/Compatibility/Inputs"):
            (self.root / name).mkdir(parents=True)
        for name in SCRIPTS:
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts")
        (self.root / "VERSION").write_text("0.1.0\n")
        (self.root / "CHANGELOG.md").write_text(TEXT)
        (self.root / "test/Compatibility/Inputs/a").write_text("a bundle\n")
        steps = (ROOT / "scripts/nightly.sh").read_text().split("steps=(")[1].split(")")[0].split()
        self.rows = {step: (TODAY, "ok") for step in steps}
        self.write_rows()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments):
        command = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def write_rows(self):
        heading = "| step | checks | date | commit | minutes | result | it says |\n|---|---|---|---|---:|---|---|\n"
        rows = "".join(f"| {step} | a \\| b | {day} | abc1234 | 1.0 | {result} | c \\| d |\n" for step, (day, result) in self.rows.items())
        (self.root / "docs/Nightly.md").write_text(f"# Nightly\n\n<!-- nightly: written by scripts/nightly.sh -->\n{heading}{rows}<!-- end nightly -->\n")

    def check(self, is_committed=True):
        self.write_rows()
        if is_committed:
            self.git("add", "--all")
            self.git("commit", "--quiet", "--allow-empty", "--message", "a")
        result = subprocess.run([self.root / "scripts/release.sh", "--check"], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def test_all_is_well(self):
        self.assertEqual(self.check(), (0, ["release: 0.1.0 may be made"]))

    def test_rows_that_failed_are_missing_or_old(self):
        day = TODAY - datetime.timedelta(days=8)
        self.rows |= {"tidy": (day, "ok"), "docs": (TODAY, "FAILED"), "grid": (TODAY - datetime.timedelta(days=7), "ok")}
        del self.rows["asan"]
        code, lines = self.check()
        self.assertEqual(code, 1)
        self.assertEqual(
            lines,
            [
                f"nightly: expects tidy to be of the last 7 days, but got {day}",
                f"nightly: expects docs to be ok, but got FAILED on {TODAY}",
                "nightly: expects a row of asan, but got none",
                "release: expects every step of the nightly to be ok: scripts/nightly.sh STEP...",
            ],
        )

    def test_changes_that_are_not_committed(self):
        self.check()
        (self.root / "VERSION").write_text("0.1.1\n")
        self.assertEqual(
            self.check(is_committed=False),
            (1, ["release: expects a tree without changes, but got some: commit them"]),
        )

    def test_nothing_new(self):
        (self.root / "CHANGELOG.md").write_text(TEXT.replace("Unreleased", "0.1.0, 2026-11-27"))
        code, lines = self.check()
        self.assertEqual((code, lines[-1]), (1, "release: expects CHANGELOG.md to say what is new"))

    def test_what_was_released_stays(self):
        """A version once, with its bundles."""
        for name in ("c.txt", "python.txt"):
            (self.root / "test/Compatibility" / name).write_text("library: libflashcore.so.0\n")
        interfaces = self.root / "scripts/interfaces.py"
        interfaces.write_text("#!/bin/sh\ntest -s $2/c.txt && test -s $2/python.txt\n")
        self.check()
        self.git("tag", "v0.1.0")
        self.assertEqual(self.check(), (1, ["release: expects a new version in VERSION, but v0.1.0 is released"]))
        (self.root / "VERSION").write_text("0.2.0\n")
        (self.root / "test/Compatibility/Inputs/b").write_text("one more\n")
        self.assertEqual(self.check()[0], 0)
        (self.root / "test/Compatibility/Inputs/a").write_text("another\n")
        self.assertEqual(
            self.check(),
            (1, ["release: expects the stored bundles of v0.1.0 as they were, but got changes in test/Compatibility/Inputs/a"]),
        )
        self.git("checkout", "v0.1.0", "--", "test/Compatibility/Inputs/a")
        interfaces.write_text("#!/bin/sh\necho broken\nexit 1\n")
        self.assertEqual(
            self.check(),
            (1, ["broken", "release: expects what v0.1.0 promised (docs/Compatibility.md)"]),
        )


if __name__ == "__main__":
    unittest.main()
