"""Parts of a page that a script writes:

    <!-- NAME: written by scripts/... -->
    ...
    <!-- end NAME -->
"""
import re


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
