#!/usr/bin/env python3
"""Holds the pages of the documentation to what the tools do.

Each page is checked in a copy of the source tree, with the tools and LLVM on the
PATH as README.md puts them there. A comment in the line before a fence says how
it is checked, as in `<!-- check: nightly, exit 1 -->`:

  sh    runs, and must end with exit code 0 in time (--limit). `exit N`: with N.
        `nightly`: takes longer, or needs the built tree; `gpu`: needs a GPU;
        `fresh`: in a clone without a build; `package`: with the commands
        flashcore and python3 of the Python package on the PATH, and no tools.
        Only --when runs these.
  python  `package`: runs, as sh does.
  mlir  is parsed by flashcore-opt. `body of ARGUMENTS`: as that of a function with
        these; `attribute`: as one. `phase N of FILE OPTIONS`: its lines stand in
        what `flashcore-compile FILE OPTIONS --print-phases` prints for phase N.
  json  `json FILE`: is the JSON of a file that a command of the page wrote.
  any   `file NAME`: is written to NAME first, for the commands that follow.
        `output`: is what the command before it prints (`output, package`).
        `none: REASON`: is not checked.

In what is compared, `...` stands for what is left out (scripts/excerpts.py).
Links, and paths in `code`, must lead somewhere. An `.mlir` file is a page, too:
the lines of its comments that begin with `$` are commands.
"""
import argparse
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import excerpts
import markdown_fences
from llvm import BIN as LLVM_BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATHS = r"`((?:docs|scripts|test|lib|include|tools|runtime|benchmarks|cmake|unittests)/[\w./*-]+)`"


class Failure(Exception):
    """What a page says is not so."""


class Workspace:
    """A copy of the source tree where commands run and leave what they like."""

    def __init__(self, tools, llvm, preset="release"):
        self.folder = tempfile.TemporaryDirectory(prefix="flashcore-docs-")
        self.root = pathlib.Path(self.folder.name) / "flashcore"
        skipped = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(ROOT, self.root, symlinks=True,
                        ignore=lambda where, names: {"build"} & set(names) if where == str(ROOT) else skipped(where, names))
        path = []
        if tools:
            (self.root / "build").mkdir()
            (self.root / "build" / preset).symlink_to(tools.resolve().parent)
            path = [str(self.root / "build" / preset / "bin")]
        path.append(str(llvm))
        temporary = pathlib.Path(self.folder.name) / "tmp"
        temporary.mkdir()
        self.environment = {**os.environ, "PATH": os.pathsep.join([*path, os.environ["PATH"]]), "TMPDIR": str(temporary),
                            "FLASHCORE_CACHE_DIR": str(temporary / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, script, limit=None, stdin=""):
        """Exit code and output of a script; its processes end with it."""
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=self.root, env=self.environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(stdin, limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failure(f"takes more than {limit} s: shorten it, or mark it 'nightly'") from None
        return process.returncode, output


class Page:
    """The checks of one page, in order: a command may need what an earlier one
    wrote."""

    def __init__(self, workspace, limit, verbose=False):
        self.workspace, self.limit, self.verbose = workspace, limit, verbose
        self.output = None  # of the last command
        self.phases = {}  # by the arguments of flashcore-compile
        self.checked = 0

    def check_fence(self, fence):
        marks = fence.marks
        if "file" in marks:
            target = self.workspace.root / marks["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(fence.text)
        if fence.language == "sh":
            self.check_command(fence.text, int(marks.get("exit", 0)), self.limit if fence.when == "ci" else None)
        elif fence.language == "python" and fence.when == "package":
            self.check_command(f"python3 - <<'END_OF_PYTHON'\n{fence.text}END_OF_PYTHON\n", 0, None)
        elif "output" in marks:
            self.check_output(fence.text)
        elif "phase" in marks:
            self.check_phase(fence.text, marks["phase"])
        elif "json" in marks:
            self.check_json(fence.text, marks["json"])
        elif fence.language == "mlir":
            self.check_ir(complete(fence.text, marks))
        else:
            return
        self.checked += 1

    def check_command(self, script, expected, limit):
        if outside := re.search(r"(?:^|[\s=>])(/(?!usr/|dev/null)\w[\w./-]*)", script):
            raise Failure(f"expects paths in the source tree, where a check may write, but got {outside[1]}")
        code, self.output = self.workspace.run(script, limit)
        if self.verbose:
            print(f"{script}{indent(self.output)}", flush=True)
        if code != expected:
            raise Failure(f"expects exit code {expected}, but got {code}; the output is\n{indent(self.output)}")

    def check_output(self, shown):
        if self.output is None:
            raise Failure("expects a command before its output, but got none that was run")
        if difference := excerpts.match_text(shown, self.output):
            raise Failure(difference)

    def check_phase(self, shown, mark):
        match = re.fullmatch(r"(\d) of (.+)", mark)
        if not match:
            raise Failure(f"expects the mark 'phase N of FILE OPTIONS', but got 'phase {mark}'")
        number, arguments = match.groups()
        if arguments not in self.phases:
            code, printed = self.workspace.run(f"flashcore-compile {arguments} --print-phases -o /dev/null", self.limit)
            if code:
                raise Failure(f"flashcore-compile {arguments} fails\n{indent(printed)}")
            self.phases[arguments] = dict(re.findall(r"^// -+ phase (\d).*\n((?:(?!// -+ phase).*\n)*)", printed, re.M))
        if number not in self.phases[arguments]:
            raise Failure(f"expects a phase that flashcore-compile prints, but got {number}")
        if difference := excerpts.match_ir(shown, self.phases[arguments][number]):
            raise Failure(difference)

    def check_json(self, shown, name):
        try:
            difference = excerpts.match_json(excerpts.parse_json(shown), excerpts.parse_json((self.workspace.root / name).read_text()))
        except (OSError, ValueError) as error:
            raise Failure(str(error)) from None
        if difference:
            raise Failure(difference)

    def check_ir(self, text):
        code, output = self.workspace.run("flashcore-opt - -o /dev/null", self.limit, stdin=text)
        if code:
            raise Failure(f"flashcore-opt refuses it\n{indent(output)}")


def complete(text, marks):
    """A module that holds a part of one."""
    if "attribute" in marks:
        return f"module attributes {{flashcore.example = {text}}} {{}}"
    if "body" in marks:
        return f"func.func @example({marks['body'].removeprefix('of ')}) {{\n{text}\n  return\n}}"
    return text


def indent(text):
    return "".join(f"  | {line}\n" for line in text.splitlines()[-40:])


def check_references(path, text):
    """Links and paths that lead nowhere."""
    for line, target in markdown_fences.links(text):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = path.parent / name if name else path
        if not file.exists():
            yield line, f"links to {target}, but there is no such file"
        elif anchor and anchor not in markdown_fences.anchors(file.read_text()):
            yield line, f"links to {target}, but that page has no such heading"
    for match in re.finditer(PATHS, text):
        if not any(ROOT.glob(match[1])):
            yield text[:match.start()].count("\n") + 1, f"names {match[1]}, but there is no such file"


def commands_of_ir(text):
    """The commands in the comments of an .mlir file, as fences."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"// *\$ (.+)", line):
            yield markdown_fences.Fence("sh", match[1], number, {})


def check_page(path, args, shared):
    """Prints what is wrong with a page; the number of snippets where nothing is,
    else None. The commands of .mlir files leave nothing that another one could
    take for its own."""
    text = path.read_text()
    name = os.path.relpath(path, ROOT)
    errors = [] if args.when else list(check_references(path, text))
    try:
        fences = list(markdown_fences.fences(text) if path.suffix == ".md" else commands_of_ir(text))
    except markdown_fences.MarkError as error:
        print(f"{name}:{error}")
        return None
    when = {args.when} if args.when else {"ci"}
    chosen = [fence for fence in fences if fence.when in when or (fence.when == "ci" and "file" in fence.marks)]
    checked = 0
    if any(fence.when in when for fence in chosen):
        tools = None if args.when in ("fresh", "package") else args.bin
        workspace = shared() if path.suffix == ".mlir" else Workspace(tools, args.llvm)
        page = Page(workspace, args.limit, args.verbose)
        for fence in chosen:
            try:
                page.check_fence(fence)
            except Failure as failure:
                errors.append((fence.line, str(failure)))
        checked = page.checked
    for line, error in errors:
        print(f"{name}:{line}: {error}")
    if errors:
        return None
    print(f"{name}: {checked} snippets are as shown")
    return checked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the tools")
    parser.add_argument("--llvm", type=pathlib.Path, default=LLVM_BIN, help="folder of LLVM's tools")
    parser.add_argument("--when", choices=["nightly", "fresh", "gpu", "package"], help="run the snippets with this mark instead")
    parser.add_argument("--limit", type=int, default=30, help="seconds an unmarked command may take; it should take under 5 (default: 30)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what the commands print")
    parser.add_argument("pages", type=pathlib.Path, nargs="+", help="Markdown pages or .mlir files, named from the repository root")
    args = parser.parse_args()
    shared = functools.cache(lambda: Workspace(args.bin, args.llvm))
    results = [check_page((ROOT / page).resolve(), args, shared) for page in args.pages]
    if None in results:
        return 1
    if len(results) > 1:
        print(f"{sum(results)} snippets of {sum(count > 0 for count in results)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
