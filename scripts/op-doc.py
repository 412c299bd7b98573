#!/usr/bin/env python3
"""Writes docs/Op.md: the op and its schedule as their TableGen files describe
them, and the examples by their first lines.

usage: op-doc.py [--check] [LLVM_BIN]

LLVM_BIN is the folder of mlir-tblgen, /usr/lib/llvm-22/bin if not given. --check
compares with the file instead of writing it.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/Op.md"
EXAMPLES = ROOT / "docs/examples"
HEAD = """# The op

Written by `scripts/op-doc.py` from `FlashCoreOps.td` and `FCGPUAttrs.td` and from the examples. [Support.md](Support.md) says what of it is
lowered, [Tutorial.md](Tutorial.md) walks through a first one.

## Examples

Each file says in its first lines how it is run, and is run so in CI.

| example | shows |
|---|---|
"""
# Snippets that are no whole module, and what makes one of them.
MARKS = {"flashcore.attention": "body of %q: memref<1x8x512x64xf16>, %k: memref<1x2x512x64xf16>, %v: memref<1x2x512x64xf16>, "
                                "%o: memref<1x8x512x64xf16>, %lse: memref<1x8x512xf32>",
         "flashcore.yield": "none: it is the end of a region, and test/Dialect/FlashCore/ops.mlir has some",
         "#fcgpu.schedule": "attribute"}


def tablegen(llvm, file, *options):
    command = [llvm / "mlir-tblgen", *options, "-I", ROOT / "include", "-I", llvm.parent / "include", ROOT / "include" / file]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return result.stdout if result.returncode == 0 else sys.exit(f"op-doc: {command[0]} failed for {file}")


def mark_snippets(text):
    def mark(match):
        name = next(name for name in MARKS if match[1].startswith(name))
        return f"<!-- check: {MARKS[name]} -->\n{match[0]}"
    return re.sub(r"^```mlir\n(\S+)", mark, text, flags=re.M)


def examples():
    """A row for each: the comment that it begins with, up to its command."""
    for path in sorted(EXAMPLES.glob("*.mlir")):
        comment = re.match(r"(?:// (?!\$).*\n)+", path.read_text())
        if not comment:
            sys.exit(f"{path}: expects a comment that says what it shows")
        yield f"| [{path.name}](examples/{path.name}) | {' '.join(comment[0].replace('// ', '').split())} |\n"


def dialect(llvm):
    text = tablegen(llvm, "flashcore/Dialect/FlashCore/IR/FlashCoreOps.td", "-gen-dialect-doc", "-dialect=flashcore")
    text = text[text.index("### `flashcore.attention`"):]
    # What says how C++ sees the op is in the header.
    text = re.sub(r"^(Traits|Interfaces|Effects): .*\n\n", "", text, flags=re.M)
    text = re.sub(r" \(flashcore::\w+\)$", "", text, flags=re.M)
    return re.sub(r"^##(#+) ", r"#\1 ", text.replace("## Enums\n\n", ""), flags=re.M)


def schedule(llvm):
    text = tablegen(llvm, "flashcore/Dialect/FCGPU/IR/FCGPUOps.td", "-gen-attrdef-doc")
    text = text[text.index("### ScheduleAttr"):]
    text = text[:text.index("#### Parameters")]
    return "## `#fcgpu.schedule`\n" + re.sub(r"^.*?\n(.*?)Syntax:\n\n```.*?```\n", r"\1", text, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with docs/Op.md")
    parser.add_argument("llvm", nargs="?", type=pathlib.Path, default=pathlib.Path("/usr/lib/llvm-22/bin"), metavar="LLVM_BIN")
    args = parser.parse_args()
    text = HEAD + "".join(examples()) + "\n" + mark_snippets(dialect(args.llvm) + "\n" + schedule(args.llvm))
    text = re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
    if not args.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or text != PAGE.read_text():
        print("docs/Op.md is out of date: run scripts/op-doc.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
