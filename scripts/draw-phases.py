#!/usr/bin/env python3
"""Draws docs/figures/phases.svg: the ops that each phase brings and takes away.

They are counted in what flashcore-compile --print-phases prints for an example.
--check fails where the figure on disk is not what would be drawn.
"""
import argparse
import collections
import html
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs/figures/phases.svg"
# As in docs/Pipeline.md.
COMMAND = [str(ROOT / "docs/examples/prefill.mlir"), "--row-max=exact", "--row-sum=add", "--print-phases", "-o", "/dev/null"]
# Whose ops say most of a phase comes first; other dialects last, terminators and
# declarations not at all.
DIALECTS = ["flashcore", "#fcgpu", "fcgpu", "nvgpu", "nvvm", "scf", "gpu", "vector.contract", "vector", "math", "llvm"]
DULL = re.compile(r"\w+\.(constant|yield|return|func|module|launch_func)|gpu\.binary|llvm\.mlir\.\w+|arith\.\w+")
SHOWN = 5
HEIGHT, LEFT, WIDTH, NEW, GONE = 62, 20, 300, 345, 760


def count_ops(text):
    """Ops, and the attribute that the first phase writes."""
    ops = re.findall(r'^\s*(?:%[\w:]+(?:, %[\w:]+)* = )?"?([a-z]\w*(?:\.\w+)+)', text, re.M)
    return collections.Counter(ops + re.findall(r"#fcgpu\.schedule", text))


def read_phases(compiler):
    """(title, ops) of each phase."""
    result = subprocess.run([compiler, *COMMAND], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"draw-phases: {compiler} fails: {result.stderr[-500:]}")
    parts = re.split(r"^// -+ phase (\d): ?(.*?) -+\n", result.stderr, flags=re.M)[1:]
    return [(f"{number} {title}", count_ops(text)) for number, title, text in zip(parts[::3], parts[1::3], parts[2::3])]


def changes(before, after):
    """What is new, and what is gone."""
    return [sorted((op for op in here if op not in there and not DULL.fullmatch(op)), key=lambda op: rank(op, here[op]))
            for here, there in ((after, before), (before, after))]


def rank(op, count):
    """By dialect, then the most frequent first."""
    name = next((name for name in (op, op.partition(".")[0]) if name in DIALECTS), None)
    return DIALECTS.index(name) if name else len(DIALECTS), -count, op


def shorten(ops):
    return ops[:SHOWN] + ([f"and {len(ops) - SHOWN} more"] if len(ops) > SHOWN else [])


def wrap(words, width=52):
    lines = [""]
    for word in words:
        separator = ", " if lines[-1] else ""
        if len(lines[-1]) + len(separator) + len(word) > width:
            lines[-1] += ","
            lines.append(word)
        else:
            lines[-1] += separator + word
    return lines


def text(x, y, content, kind):
    return f'<text x="{x}" y="{y}" class="{kind}">{html.escape(content)}</text>'


def draw(phases):
    height = len(phases) * HEIGHT + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1160 {height}" font-family="sans-serif" font-size="14">',
        "<title>The ops that each phase of FlashCore brings and takes away</title>",
        "<style>.title{font-weight:600}.part{fill:#57606a;font-size:12px}.op{font-family:monospace;font-size:13px}"
        ".gone{font-family:monospace;font-size:13px;fill:#8c959f}.head{fill:#57606a}</style>",
        f'<rect width="1160" height="{height}" fill="#ffffff"/>',
        text(LEFT, 24, "after phase", "head"), text(NEW, 24, "new ops", "head"), text(GONE, 24, "gone", "head"),
    ]
    before = collections.Counter()
    for row, (title, ops) in enumerate(phases):
        top = 38 + row * HEIGHT
        if row:
            middle = LEFT + WIDTH // 2
            parts.append(f'<path d="M{middle} {top - 14}v10m-4 -5l4 5l4 -5" fill="none" stroke="#57606a"/>')
        name, _, what = title.partition(": ")
        parts += [f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT - 16}" rx="6" fill="#eaf3ff" stroke="#0969da"/>',
                  text(LEFT + 10, top + 19, name, "title"), text(LEFT + 10, top + 36, what, "part")]
        new, gone = changes(before, ops)
        for x, words, kind in ((NEW, new, "op"), (GONE, gone, "gone")):
            for i, line in enumerate(wrap(shorten(words))[:3]):
                parts.append(text(x, top + 13 + 17 * i, line, kind))
        before = ops
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the tools")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    drawn = draw(read_phases(args.bin / "flashcore-compile"))
    if not args.check:
        FIGURE.write_text(drawn)
    elif FIGURE.read_text() != drawn:
        sys.exit("docs/figures/phases.svg: expects the ops that the compiler prints, but got others: run scripts/draw-phases.py")


if __name__ == "__main__":
    main()
