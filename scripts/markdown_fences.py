"""The fenced snippets of a Markdown page, with the marks that say how each is
checked. `check-docs.py --help` describes the marks.
"""
import dataclasses
import re

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>[\w+-]*)[^`\n]*\n(?P<text>.*?)^(?P=indent)(?P=ticks)$", re.M | re.S)
MARK = re.compile(r"<!-- check: (?P<mark>[^\n]*?) -->\n\Z")
# How each mark is spelled, by language; the language "" stands for all others.
ARGUMENT_MARKS = {"sh": ["exit", "none:"], "python": ["file", "none:"], "mlir": ["phase", "body", "file", "none:"], "json": ["json", "file", "none:"], "": ["file", "none:"]}
PLAIN_MARKS = {"sh": ["nightly", "fresh", "gpu", "package"], "mlir": ["attribute"], "python": ["package"], "": ["output", "package"]}


class MarkError(Exception):
    """A mark that is none, or a snippet that needs one."""


@dataclasses.dataclass
class Fence:
    language: str
    text: str
    line: int  # of its first line in the page
    marks: dict  # name to argument

    @property
    def when(self):
        """When it is checked: `ci`, `nightly`, `fresh`, `gpu`, `package` or `never`."""
        if "none" in self.marks:
            return "never"
        return next((mark for mark in ("nightly", "fresh", "gpu", "package") if mark in self.marks), "ci")


def parse_marks(text, language):
    """`exit 1, nightly` -> {"exit": "1", "nightly": ""}. A reason ends the line."""
    known = language if language in ARGUMENT_MARKS else ""
    plain, with_argument = PLAIN_MARKS.get(known, []), ARGUMENT_MARKS[known]
    marks = {}
    while text:
        # A reason or a list of arguments ends the line.
        rest = re.match(r"none:|body of ", text)
        mark, _, text = (text, "", "") if rest else (part.strip() for part in text.partition(","))
        name, _, argument = mark.partition(" ")
        if mark in plain:
            marks[mark] = ""
        elif name in with_argument and argument.strip():
            marks[name.rstrip(":")] = argument.strip()
        else:
            spelled = [*plain, *(f"{name} ..." for name in with_argument)]
            raise MarkError(f"expects a mark of '{language or 'text'}' ({', '.join(spelled)}), but got '{mark}'")
    return marks


def fences(page):
    """All fences of the text of a page, in order."""
    for match in FENCE.finditer(page):
        indent, before = match["indent"], page[:match.start()]
        line = before.count("\n") + 2
        mark = MARK.search(before)
        try:
            marks = parse_marks(mark["mark"], match["language"]) if mark else {}
            if match["language"] == "json" and not marks:
                raise MarkError("expects a mark that says what this JSON is checked against, but got none")
        except MarkError as error:
            raise MarkError(f"{line}: {error}") from None
        text = re.sub(f"^{indent}", "", match["text"], flags=re.M)
        yield Fence(match["language"], text, line, marks)


def links(page):
    """(line, target) of every link, figures included, outside of fences."""
    prose = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page)
    for match in re.finditer(r"\]\(([^()\s]+)\)", prose):
        yield prose[:match.start()].count("\n") + 1, match[1]


def anchors(page):
    """What `#...` may name: the headings as GitHub spells them."""
    prose = FENCE.sub("", page)
    for heading in re.findall(r"^#+ (.*)$", prose, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
