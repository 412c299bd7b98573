"""The table of docs/AddingAFeature.md: each feature cost as many files as its commits say,
at most twelve where nothing is to blame; nothing below the op knows it, and no pass there asks the
schedule."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 12


def count(commits):
    """The source files that were there and that the commits changed; None in a copy without the history."""
    if any(subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{commit}^"], capture_output=True).returncode for commit in commits):
        return None
    said = subprocess.run([sys.executable, ROOT / "scripts/feature-cost.py", *commits], capture_output=True, text=True, check=True)
    return int(re.match(r"existing: (\d+)", said.stdout)[1])


def check_costs(page):
    """Each feature of the table cost what its commits say and, where nothing is to blame, no more than the rule."""
    rows = re.findall(r"^\| (.+?) \| ((?:`[0-9a-f]{7,}`(?:, )?)+) \| (\d+) \| (.*?) ?\|$", page, re.M)
    if not rows:
        yield "expects features in docs/AddingAFeature.md, but got none"
    for name, commits, number, blame in rows:
        found = count(re.findall(r"[0-9a-f]{7,}", commits))
        if found is None:
            print(f"{name}: its commits are not here, so that its number is not checked")
        elif found != int(number):
            yield f"{name}: expects {found} files, which scripts/feature-cost.py counts, but got {number}"
        if int(number) > MOST and not blame:
            yield f"{name}: expects at most {MOST} files or what is to blame, but got {number}"


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


errors = [*check_costs((ROOT / "docs/AddingAFeature.md").read_text()), *check_layers(), *check_schedule(), *check_schedules()]
print("\n".join(errors))
sys.exit(1 if errors else 0)
