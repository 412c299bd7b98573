"""Parts of a page that a script writes:

    <!-- NAME: written by scripts/... -->
    ...
    <!-- end NAME -->
"""
import argparse
import json
import pathlib
import re
import sys


def pattern(name):
    return re.compile(rf"(?<=\n)(<!-- {name}: written by [^\n]* -->\n)(.*?)(<!-- end {name} -->\n)", re.S)


def read(page, name):
    """The text of a block of the page at this path."""
    blocks = pattern(name).findall(page.read_text())
    if len(blocks) != 1:
        raise SystemExit(f"{page}: expects one block '{name}', but got {len(blocks)}")
    return blocks[0][1]


def write(page, name, text):
    read(page, name)  # or fails
    page.write_text(pattern(name).sub(lambda match: match[1] + text + match[3], page.read_text()))


def hold(page, texts, is_update, remedy):
    """Writes these blocks {name: text} of the page, or fails where the page
    has another text; `remedy` says what writes it."""
    for name, text in texts.items():
        if is_update:
            write(page, name, text)
        elif read(page, name) != text:
            raise SystemExit(f"{page}: block '{name}' does not show its figures: {remedy}")


def main(description, describe):
    """The command line of a script that shows a JSON file of figures on a
    page; `describe` makes {name: text} of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    texts = describe(json.loads(args.figures.read_text()))
    hold(args.page, texts, args.update, f"run {sys.argv[0]} --update {args.figures} {args.page}")
    return 0
