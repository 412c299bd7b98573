"""The statements of a PTX kernel, as text with positions."""

import bisect
import dataclasses
import re


@dataclasses.dataclass
class Statement:
    first: int  # line, from 0
    last: int
    guard: str  # "@%p1 ", "@!%p1 " or ""
    opcode: str
    operands: list
    # Columns of its first character, in the first line, and behind its ';', in
    # the last: inline assembly has several statements a line.
    begin: int = 0
    end: int = 0

    def __str__(self):
        return f"\t{self.guard}{self.opcode} {', '.join(self.operands)};"


def split_operands(text):
    """Splits at commas outside of braces and brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "{[") - (c in "}]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


# What stands between statements: labels, scopes and directives.
_BETWEEN = re.compile(r"\s+|[{}]|[\w$]+\s*:(?!:)|\.branchtargets[^;]*;|"
                      r"\.[^;\n]*;?")
_STATEMENT = re.compile(r"(@!?%?\w+\s+)?([a-z][\w.:]*)\s*([^;]*);")


def _without_comments(lines):
    """The text, with blanks in the place of comments."""
    return "\n".join(re.sub("//.*", lambda m: " " * len(m[0]), line)
                     for line in lines)


def statements(lines, kernel=None):
    """All instructions of the body of a kernel, by default the first one, in
    order. Directives, labels and scopes in braces are none."""
    text = _without_comments(lines)
    starts = [0]  # of the lines
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    entry = re.compile(rf"\.entry\s+{kernel or ''}\b").search(text).end()
    at = text.index("\n{", entry) + 2
    result, depth = [], 1
    while depth:
        if match := _BETWEEN.match(text, at):
            depth += (match[0] == "{") - (match[0] == "}")
            at = match.end()
            continue
        match = _STATEMENT.match(text, at)
        first = bisect.bisect_right(starts, at) - 1
        assert match, f"line {first + 1}: {lines[first]}"
        at = match.end()
        last = bisect.bisect_right(starts, at - 1) - 1
        guard, opcode, operands = match.groups()
        result.append(Statement(first, last, guard or "", opcode,
                                split_operands(operands),
                                match.start() - starts[first],
                                at - starts[last]))
    return result


def labels(lines):
    """Line of each label."""
    return {line.strip()[:-1]: number for number, line in enumerate(lines)
            if re.fullmatch(r"\s*\$\w+:\s*", line)}


def blocks(lines):
    """Basic blocks as (statements, indices of successors)."""
    starts = labels(lines)
    label_of = {number: name for name, number in starts.items()}
    groups, names, number = [[]], {}, 0
    for statement in statements(lines):
        # A label, or a branch before it, starts a block.
        while number < statement.first:
            if number in label_of:
                groups += [[]] if groups[-1] else []
                names[label_of[number]] = len(groups) - 1
            number += 1
        groups[-1].append(statement)
        if statement.opcode in ("bra", "bra.uni", "ret", "exit"):
            groups.append([])
    result = []
    for index, group in enumerate(groups):
        last = group[-1] if group else None
        successors = []
        if last and last.opcode.startswith("bra"):
            successors.append(names[last.operands[0]])
        falls_through = not last or last.guard or last.opcode not in (
            "bra", "bra.uni", "ret", "exit")
        if falls_through and index + 1 < len(groups):
            successors.append(index + 1)
        result.append((group, successors))
    return result


def _reachable(graph, start):
    """Blocks that a path of at least one edge from `start` leads to."""
    seen, work = set(), [start]
    while work:
        for successor in graph[work.pop()][1]:
            if successor not in seen:
                seen.add(successor)
                work.append(successor)
    return seen


def _loop_members(graph):
    """Of the outermost loops the indices of their blocks, which reach each
    other, in text order."""
    reach = [_reachable(graph, i) for i in range(len(graph))]
    result, done = [], set()
    for i in range(len(graph)):
        if i in done or i not in reach[i]:
            continue
        result.append([j for j in range(len(graph)) if j in reach[i] and
                       i in reach[j]])
        done.update(result[-1])
    return result


def loops(lines):
    """The outermost loops, each as the list of its statements in text order."""
    graph = blocks(lines)
    return [[s for j in members for s in graph[j][0]]
            for members in _loop_members(graph)]


def _best_iteration(graph, members, score):
    entry = next(i for i in members
                 if any(i in successors for j, (_, successors)
                        in enumerate(graph) if j not in members))
    nothing = tuple(0 for _ in score(graph[entry][0][0]))
    ways = {}

    def find_way(block):
        """The best score and statements from a block to the loop's end."""
        if block in ways:
            return ways[block]
        ways[block] = None  # while it is open: not round an inner loop
        statements, successors = graph[block]
        rest = [find_way(j) for j in successors
                if j in members and j != entry]
        if entry in successors:
            rest.append((nothing, []))
        rest = [way for way in rest if way]
        if rest:
            tail, after = max(rest, key=lambda way: way[0])
            scores = [tail, *map(score, statements)]
            ways[block] = (tuple(map(sum, zip(*scores))), statements + after)
        return ways[block]

    return find_way(entry)[1]


def iterations(lines, score):
    """For each of loops(lines) the statements of one iteration: of all ways
    through the loop's blocks that for which score(statement), a tuple, sums up
    to the most."""
    graph = blocks(lines)
    return [_best_iteration(graph, members, score)
            for members in _loop_members(graph)]
