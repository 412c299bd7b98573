#!/usr/bin/env python3
"""Writes the pages of docs/ that say what TableGen files say: the op with its
schedule and examples (Op.md), the passes (Passes.md) and the dialect below the
op (FCGPU.md).

usage: reference-docs.py [--check] [LLVM_BIN]

LLVM_BIN is the folder of mlir-tblgen, by default that of llvm.sh. --check
compares with the files instead of writing them.
"""
import argparse
import pathlib
import re
import subprocess
import sys

from llvm import BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "docs/examples"
OP_HEAD = """# The op

Written by `scripts/reference-docs.py` from `FlashCoreOps.td`, `FlashCoreTileOps.td` and `FCGPUAttrs.td` and from the examples. [Support.md](Support.md) says what of it is
lowered, [Tutorial.md](Tutorial.md) walks through a first one.

## Examples

Each file says in its first lines how it is run, and is run so in CI.

| example | shows |
|---|---|
"""
PASSES_HEAD = """# The passes

Written by `scripts/reference-docs.py` from the files `Passes.td` and `ScheduleFields.def`. [Pipeline.md](Pipeline.md) says how they follow each other, with what each makes
of a kernel; `flashcore-opt` runs each alone.
"""
FCGPU_HEAD = """# The dialect below the op

Written by `scripts/reference-docs.py` from `FCGPUDialect.td`, `FCGPUAttrs.td` and `FCGPUOps.td`.

"""
PHASES = {"Phases 1 to 3: what, blocks and warps, algorithm": "flashcore/Dialect/FlashCore/Transforms/Passes.td",
          "Phases 4 to 6: memory, schedule, threads": "flashcore/Dialect/FCGPU/Transforms/Passes.td",
          "Phase 7: target": "flashcore/Conversion/Passes.td"}
# Snippets that are no whole module, and what makes one of them.
PLACE = "%b: index, %h: index, %row: index, %key: index, %end: index, %c0: index, %c512: index, %block_row: index"
PROGRAM = "none: a part of a program, and test/Dialect/FlashCore/program.mlir has whole ones"
MARKS = {"flashcore.attention_tile": "body of %q: memref<1x1x16x64xf16>, %k: memref<1x1x512x64xf16>, %v: memref<1x1x512x64xf16>, "
                                     f"%o: memref<1x1x16x64xf16>, {PLACE}",
         "flashcore.scores_tile": f"body of %q: memref<1x1x16x64xf16>, %k: memref<1x1x512x64xf16>, %s: memref<1x1x16x512xf32>, {PLACE}",
         "flashcore.values_tile": f"body of %p: memref<8x1x16x64xf16>, %v: memref<1x1x512x64xf16>, %o: memref<1x1x16x64xf16>, {PLACE}",
         "flashcore.append_kernel": PROGRAM,
         "flashcore.attention_kernel": PROGRAM,
         "flashcore.merge_kernel": PROGRAM,
         "flashcore.scores_kernel": PROGRAM,
         "flashcore.softmax_kernel": PROGRAM,
         "flashcore.values_kernel": PROGRAM,
         "%": PROGRAM,
         "flashcore.attention": "body of %q: memref<1x8x512x64xf16>, %k: memref<1x2x512x64xf16>, %v: memref<1x2x512x64xf16>, "
                                "%o: memref<1x8x512x64xf16>, %lse: memref<1x8x512xf32>",
         "flashcore.merge": "body of %outputs: memref<4x1x8x512x64xf32>, %lses: memref<4x1x8x512xf32>, %o: memref<1x8x512x64xf16>, "
                            "%lse: memref<1x8x512xf32>",
         "flashcore.append": "body of %k_new: memref<2x8x1x64xf16>, %v_new: memref<2x8x1x64xf16>, %used: memref<2xi32>, "
                             "%k: memref<2x8x4096x64xf16>, %v: memref<2x8x4096x64xf16>",
         "flashcore.delta": "body of %do: memref<1x8x512x64xbf16>, %o: memref<1x8x512x64xbf16>, %delta: memref<1x8x512xf32>",
         "flashcore.yield": "none: it is the end of a region, and test/Dialect/FlashCore/ops.mlir has some",
         "#fcgpu.schedule": "attribute"}


def tablegen(llvm, file, *options):
    command = [llvm / "mlir-tblgen", *options, "-I", ROOT / "include", "-I", llvm.parent / "include", ROOT / "include" / file]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return result.stdout if result.returncode == 0 else sys.exit(f"reference-docs: {command[0]} failed for {file}")


def mark_snippets(text):
    def mark(match):
        name = next(name for name in MARKS if match[1].startswith(name))
        return f"<!-- check: {MARKS[name]} -->\n{match[0]}"
    return re.sub(r"^```mlir\n(\S+)", mark, text, flags=re.M)


def mark_fragments(text, tests):
    """Snippets that use values of nowhere; whole ones are in the tests."""
    return re.sub(r"^```mlir\n", f"<!-- check: none: a fragment; {tests} has whole ones -->\n\\g<0>", text, flags=re.M)


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


def without_cpp(text):
    """What says how C++ sees an op or attribute is in the header."""
    text = re.sub(r"^(Traits|Interfaces|Effects): .*\n\n", "", text, flags=re.M)
    text = re.sub(r"^\| (:-+: \| ){2}.*$", lambda rule: rule[0], text, flags=re.M)
    return re.sub(r" \((flashcore|fcgpu)::\w+\)$", "", text, flags=re.M)


def op_page(llvm):
    return OP_HEAD + "".join(examples()) + "\n" + mark_snippets(dialect(llvm) + "\n" + schedule(llvm))


def enum_words():
    """Of each enum of a schedule: "a, b or c"."""
    text = (ROOT / "include/flashcore/Dialect/FCGPU/IR/FCGPUAttrs.td").read_text()
    for match in re.finditer(r'I32EnumAttr<"(\w+)".*?\]>', text, re.S):
        *words, last = re.findall(r'I32EnumAttrCase<"\w+", \d+, "(\w+)">', match[0])
        yield match[1], f"{', '.join(words)} or {last}"


def schedule_options():
    """Name and help of the options that are made of ScheduleFields.def."""
    text = (ROOT / "include/flashcore/Dialect/FCGPU/IR/ScheduleFields.def").read_text()
    words = dict(enum_words())
    for match in re.finditer(r"^FLASHCORE_SCHEDULE_FIELD\((?:fcgpu::)?(\w+),(.*?)\)$", text, re.M | re.S):
        *names, help = re.findall(r'"(.*?)"(?!\s*")', re.sub(r'"\s+"', "", match[2]))
        values = f": {words[match[1]]}; empty" if match[1] in words else "; 0"
        yield names[1], f"{help}{values} lets the compiler choose"


def add_options(text):
    """Between those that Passes.td has for the pass: -chip and -tuning-file."""
    match = re.search(r"^(-chip) *(: .*\n)(-tuning-file) *(: .*\n)", text, re.M)
    options = [(match[1], match[2]), *((f"-{name}", f": {help}\n") for name, help in schedule_options()), (match[3], match[4])]
    width = max(len(name) for name, _ in options)
    return text[:match.start()] + "".join(f"{name:{width}} {help}" for name, help in options) + text[match.end():]


def passes_page(llvm):
    text = PASSES_HEAD
    for title, file in PHASES.items():
        text += f"\n## {title}\n\n" + re.sub(r"<!--.*?-->\n", "", tablegen(llvm, file, "-gen-pass-doc"), flags=re.S)
    text = add_options(text)
    text = re.sub(r"^_(.*)_$", r"\1.", text, flags=re.M)
    return mark_fragments(text, "test/Dialect")


def fcgpu_page(llvm):
    text = tablegen(llvm, "flashcore/Dialect/FCGPU/IR/FCGPUOps.td", "-gen-dialect-doc", "-dialect=fcgpu")
    text = re.sub(r"<!--.*?-->\n", "", text, flags=re.S)
    text = text[text.index("# 'fcgpu' Dialect") + len("# 'fcgpu' Dialect"):].replace("[TOC]\n", "")
    # The schedule is on the page of the op.
    text = re.sub(r"### ScheduleAttr\n.*?(?=^##)(?!#### )", "", text, flags=re.S | re.M)
    return FCGPU_HEAD + mark_fragments(without_cpp(text), "test/Dialect/FCGPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the pages")
    parser.add_argument("llvm", nargs="?", type=pathlib.Path, default=BIN, metavar="LLVM_BIN")
    args = parser.parse_args()
    stale = False
    for name, make in {"Op.md": op_page, "Passes.md": passes_page, "FCGPU.md": fcgpu_page}.items():
        text = re.sub(r"\n{3,}", "\n\n", make(args.llvm)).rstrip() + "\n"
        text = re.sub(r" +$", "", text, flags=re.M)
        page = DOCS / name
        if not args.check:
            page.write_text(text)
        elif not page.exists() or text != page.read_text():
            print(f"docs/{name} is out of date: run scripts/reference-docs.py")
            stale = True
    return stale


if __name__ == "__main__":
    sys.exit(main())
