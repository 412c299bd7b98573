"""Docstrings of the Python package as Markdown: their lines `name: what it is`,
which may go on in lines that are indented, become lists."""
import re

import griffe


class Docstrings(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text):
    lines, is_list = [], False
    for line in text.expandtabs().splitlines():
        item = re.fullmatch(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.*)", line)
        if item:
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            # A list needs a line before it that is empty.
            lines += ([] if is_list else [""]) + [f"- {names}: {item[2]}"]
            is_list = True
        else:
            is_list = is_list and line.startswith(" ")
            lines.append(line)
    text = re.sub(r":\w+:`~?(.+?)`|``(.+?)``", lambda match: f"`{match[1] or match[2]}`", "\n".join(lines))
    return re.sub(r"(?<![`\w])__\w+__(?![`\w])", r"`\g<0>`", text)
