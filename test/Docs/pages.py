"""Every page has a test, and every page that a source file names exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("*.h", "*.cpp", "*.td", "*.py", "*.sh", "*.txt", "*.cmake", "*.test", "*.mlir", "*.md")
FOLDERS = ("cmake", "docs", "include", "lib", "runtime", "scripts", "tools", "unittests", "benchmarks")


def pages():
    return [ROOT / "README.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def untested():
    commands = "".join(path.read_text() for path in (ROOT / "test/Docs").glob("*.test"))
    for page in pages():
        name = str(page.relative_to(ROOT))
        if not re.search(rf"%check-docs.*\s{re.escape(name)}\s", commands):
            yield f"{name}: expects a test under test/Docs that checks it, but got none"


def missing():
    files = [path for folder in FOLDERS for pattern in SOURCES for path in (ROOT / folder).rglob(pattern)]
    for path in [ROOT / "CMakeLists.txt", *files]:
        for match in re.finditer(r"\bdocs/[\w/-]+\.md\b", path.read_text(errors="replace")):
            if not (ROOT / match[0]).exists():
                yield f"{path.relative_to(ROOT)}: names {match[0]}, but there is no such page"


errors = [*untested(), *missing()]
print("\n".join(errors))
sys.exit(1 if errors else 0)
