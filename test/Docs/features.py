"""The lists of docs/AddingAFeature.md: each feature touches at most twelve files, which
are there, each once; nothing below the op knows it, and no pass there asks the
schedule."""
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


def check_schedule():
    """Passes 4 to 6 read what they do from ops, rings and copies; the launch alone is the schedule's."""
    asks = re.compile(r'\b(ScheduleAttr|ScheduleChoice|ScheduleOptions|kScheduleAttrName|kFewQueriesAttrName)\b|"fcgpu\.schedule"|IR/Schedule\.h|flashcore/Schedule/')
    asked = set()
    for path in sorted((ROOT / "lib/Dialect/FCGPU/Transforms").iterdir()):
        if found := asks.search(path.read_text()):
            asked.add(path.name)
            if path.name != "WarpRoles.cpp":
                yield f"{path.relative_to(ROOT)}: asks the schedule: {found[0]}; write it onto the ops in phases 2 to 4"
    if "WarpRoles.cpp" not in asked:
        yield "expects WarpRoles.cpp to ask the schedule for the launch, but it does not: this check finds nothing"


def check_schedules():
    """What chooses schedules stands on what analyses tiles, never the other way, in files that are read at once."""
    for folder in ("lib/Analysis", "include/flashcore/Analysis"):
        for path in sorted((ROOT / folder).iterdir()):
            if found := re.search(r"flashcore/Schedule/\w+", path.read_text()):
                yield f"{path.relative_to(ROOT)}: knows {found[0]}, which is above it"
    for folder in ("lib/Schedule", "lib/Compiler", "lib/Dialect/FlashCore"):
        files = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h"))
        if not files:
            yield f"expects files in {folder}, but got none"
        for path in files:
            if (lines := len(path.read_text().splitlines())) > 500:
                yield f"{path.relative_to(ROOT)}: expects at most 500 lines, but got {lines}"


errors = [*check_lists((ROOT / "docs/AddingAFeature.md").read_text()), *check_layers(), *check_schedule(), *check_schedules()]
print("\n".join(errors))
sys.exit(1 if errors else 0)
