"""The lists of docs/AddingAFeature.md: each feature touches at most twelve files, which
are there, each once; and nothing below the op knows it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 12


def check_lists(page):
    features = re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", page, re.M)
    if not features:
        yield "expects features in docs/AddingAFeature.md, but got none"
    for name, text in features:
        files = re.findall(r"^\| `([^`]+)` \|", text, re.M)
        if not 1 <= len(files) <= MOST:
            yield f"{name}: expects 1 to {MOST} files, but got {len(files)}"
        for file in sorted(set(files)):
            if files.count(file) > 1:
                yield f"{name}: names {file} twice"
            if not (ROOT / file).is_file():
                yield f"{name}: names {file}, but there is no such file"


def check_layers():
    below = [*(ROOT / "lib/Dialect/FCGPU").rglob("*.*"), *(ROOT / "include/flashcore/Dialect/FCGPU").rglob("*.*")]
    for path in below:
        if path.suffix in (".cpp", ".h", ".td") and (found := re.search(r"\bAttentionOp\b|Dialect/FlashCore/", path.read_text())):
            yield f"{path.relative_to(ROOT)}: knows the op above it: {found[0]}"


errors = [*check_lists((ROOT / "docs/AddingAFeature.md").read_text()), *check_layers()]
print("\n".join(errors))
sys.exit(1 if errors else 0)
