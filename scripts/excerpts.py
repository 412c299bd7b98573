"""Compares what a page shows with what a tool printed.

IR (`match_ir`): the excerpt's lines stand in the output, in this order.
  * Lines between them may be left out; `...` stands for any part of a line.
  * Names of values and maps may differ, but one stands for one thing throughout.
  * A line that is indented deeper lies in a region of the line above it that is
    indented less; lines of one depth stand next to each other in one region.
  * A line goes on in the next one where a bracket is open, or where that is
    indented by four or more. Comments do not count.
Text (`match_text`): all lines, in order, without gaps; `...` stands for any part
of a line, on a line of its own for any lines.
JSON (`match_json`): the same value; `...` stands for any value or more of them.
"""
import dataclasses
import json
import re

TOKEN = re.compile(r"""\.\.\.|[%^][\w$.-]+|[#!][A-Za-z_][\w.]*|"[^"]*"|[A-Za-z_][\w$.]*|\d[\w.]*|->|\S""")
# Candidates tried before an excerpt counts as too vague to check.
MAX_STEPS = 200000


@dataclasses.dataclass
class Line:
    indent: int
    tokens: list
    text: str


def is_name(token):
    """%value, ^block, and aliases such as #map3, but not #fcgpu.schedule."""
    return token[0] in "%^" and len(token) > 1 or token[0] in "#!" and len(token) > 1 and "." not in token


def open_brackets(tokens):
    """Brackets that a line leaves open, but for the brace of a region."""
    depth = sum(token in "([<{" for token in tokens) - sum(token in ")]>}" for token in tokens)
    return depth - (tokens[-1] == "{") + (tokens[0] == "}")


def lines_of(text, join=False):
    """The lines of IR; with `join`, those that go on are put together."""
    lines = []
    for raw in text.splitlines():
        raw = re.sub(r"\s*//.*", "", raw).rstrip()
        if not raw:
            continue
        indent, tokens = len(raw) - len(raw.lstrip()), TOKEN.findall(raw)
        last = lines[-1] if join and lines else None
        if last and last.tokens[-1] != "{" and (open_brackets(last.tokens) > 0 or indent >= last.indent + 4):
            last.tokens += tokens
            last.text += " " + raw.strip()
        else:
            lines.append(Line(indent, tokens, raw.strip()))
    return lines


def bind(name, actual, names):
    """`names` with name = actual, or None where that contradicts it."""
    if name in names:
        return names if names[name] == actual else None
    # Loops beside each other have arguments of the same names.
    if name[0] != actual[0] or (actual in names.values() and not actual.startswith("%arg")):
        return None
    return {**names, name: actual}


def match_tokens(wanted, actual, names):
    """Every way to extend `names` so that the tokens of a line agree."""
    if not wanted:
        if not actual:
            yield names
        return
    if wanted[0] == "...":
        # Rest last: a wildcard takes as little as it can.
        for skipped in range(len(actual) + 1):
            yield from match_tokens(wanted[1:], actual[skipped:], names)
        return
    if not actual:
        return
    if is_name(wanted[0]) and is_name(actual[0]):
        bound = bind(wanted[0], actual[0], names)
        if bound is not None:
            yield from match_tokens(wanted[1:], actual[1:], bound)
    elif wanted[0] == actual[0]:
        yield from match_tokens(wanted[1:], actual[1:], names)


class IRMatcher:
    def __init__(self, excerpt, output):
        self.wanted = [line for line in lines_of(excerpt, join=True) if line.tokens != ["..."]]
        self.actual = lines_of(output)
        self.steps = 0
        self.deepest = (-1, [])  # line of the excerpt, matches up to it
        # For each line the one that encloses it, and the last one beside it.
        self.parents, self.siblings = [], []
        for i, line in enumerate(self.wanted):
            before = range(i - 1, -1, -1)
            parent = next((j for j in before if self.wanted[j].indent < line.indent), None)
            sibling = next((j for j in before if self.wanted[j].indent == line.indent and self.parents[j] == parent), None)
            self.parents.append(parent)
            self.siblings.append(sibling)

    def candidates(self, matches):
        """Lines of the output where the next line of the excerpt may stand."""
        i = len(matches)
        parent, sibling = self.parents[i], self.siblings[i]
        start = matches[-1] + 1 if matches else 0
        floor = self.actual[matches[parent]].indent + 1 if parent is not None else 0
        indent = None
        if sibling is not None:
            floor = indent = self.actual[matches[sibling]].indent
        for j in range(start, len(self.actual)):
            if self.actual[j].indent < floor:
                return
            if indent is None or self.actual[j].indent == indent:
                yield j

    def search(self, matches, names):
        i = len(matches)
        if i == len(self.wanted):
            return True
        if i > self.deepest[0]:
            self.deepest = (i, list(matches))
        for j in self.candidates(matches):
            self.steps += 1
            if self.steps > MAX_STEPS:
                return False
            for bound in match_tokens(self.wanted[i].tokens, self.actual[j].tokens, names):
                if self.search([*matches, j], bound):
                    return True
        return False

    def complaint(self):
        i, matches = self.deepest
        words = [token for token in self.wanted[i].tokens if re.match(r"[A-Za-z_]", token)]
        near = [self.actual[j].text for j in self.candidates(matches) if words and words[0] in self.actual[j].tokens]
        after = f" after '{self.actual[matches[-1]].text}'" if matches else ""
        text = f"expects the line '{self.wanted[i].text}'{after}, but the output has no such line there"
        return text + "".join(f"\n  note: it has '{line}'" for line in near[:4])


def match_ir(excerpt, output):
    """None, or what disagrees."""
    matcher = IRMatcher(excerpt, output)
    if not matcher.wanted:
        return "expects an excerpt, but got no line of IR"
    if matcher.search([], {}):
        return None
    if matcher.steps > MAX_STEPS:
        return "is too vague to be checked: write fewer '...'"
    return matcher.complaint()


def text_pattern(lines):
    pattern = ""
    for line in lines:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return pattern


def match_text(shown, output):
    """None, or what disagrees."""
    wanted = [line.rstrip() for line in shown.splitlines()]
    actual = "".join(line.rstrip() + "\n" for line in output.splitlines())
    if re.fullmatch(text_pattern(wanted), actual):
        return None
    good = max(i for i in range(len(wanted) + 1) if re.match(text_pattern(wanted[:i]), actual))
    line = f"the line '{wanted[good]}'" if good < len(wanted) else "the end"
    return f"expects {line}, but the output is\n" + re.sub("^", "  | ", actual, flags=re.M).removesuffix("  | ")


def parse_json(text):
    """JSON where `...` may stand for a value, or for more members or elements. A
    part of an object needs no braces: then there may be more members, too."""
    if not text.lstrip().startswith(("{", "[")):
        text = f"{{{text.rstrip()}, ...}}"
    # Strings are every second part.
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for i in range(0, len(parts), 2):
        member = re.sub(r"(?<![:\s])(\s*)\.\.\.(?=\s*\})", r'\1"\0": 0', parts[i])
        parts[i] = member.replace("...", '"..."').replace("\0", "...")
    return json.loads("".join(parts))


def match_json(shown, actual, path="the document"):
    """None, or what disagrees."""
    if shown == "...":
        return None
    if isinstance(shown, dict) and isinstance(actual, dict):
        missing = shown.keys() - actual.keys() - {"..."}
        more = actual.keys() - shown.keys() if "..." not in shown else set()
        if missing or more:
            key = min(missing | more)
            return f"{'shows' if missing else 'lacks'} key '{key}' of {path}"
        found = (match_json(value, actual[key], f"'{key}' of {path}") for key, value in shown.items() if key != "...")
        return next(filter(None, found), None)
    if isinstance(shown, list) and isinstance(actual, list):
        return match_elements(shown, actual, path)
    # 1 is neither true nor 1.0 in JSON.
    if (shown, type(shown)) != (actual, type(actual)):
        return f"shows {json.dumps(shown)} as {path}, but it is {json.dumps(actual)}"
    return None


def match_elements(shown, actual, path):
    if "..." not in shown:
        if len(shown) != len(actual):
            return f"shows {len(shown)} elements of {path}, but it has {len(actual)}"
        found = (match_json(value, actual[i], f"element {i} of {path}") for i, value in enumerate(shown))
        return next(filter(None, found), None)
    # Elements around the gaps: each stands somewhere behind the one before.
    rest = list(actual)
    for value in (value for value in shown if value != "..."):
        while rest and match_json(value, rest[0], path):
            rest.pop(0)
        if not rest:
            return f"shows {json.dumps(value)} in {path}, but it has no such element there"
        rest.pop(0)
    return None
