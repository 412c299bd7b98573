"""Bugs that the hand-written ancestors of this kernel had, in schedules of today.

usage: ancestors.py [--record] [--bug NAME] [-v] TOOLS PTXAS FIGURES WORK_DIR

Each is a kernel of a schedule that has a name with an edit of its PTX, of its
launch or of its options; places are found by what statements do. The tools that
there are look at it: flashcore-compile where it compiles it, ptxas,
flashcore-emu with all checks, and flashcore-run, which compares the result and
checks bounds alone. One of them at least must name the bug in words that fit, none may
have anything to say of the kernel as compiled, and what they say must be what
FIGURES has, but for the words of ptxas, of which there are several versions.
--record writes that file, which figures.py shows in docs/Ladder.md.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import emulation
import mutants
import mutations
import ptx
from edits import is_number, registers, shift, with_opcode, with_operand

CHIP = "sm_89"


# Each function below yields (statement, new text) for the statements of a
# kernel.


def _producers(statements):
    """Register -> the statement that gives it; the last one of several."""
    return {name: statement for statement in statements
            if statement.operands
            for name in registers(statement.operands[0])}


def _opcode_of(producers, operand):
    return producers[operand].opcode if operand in producers else ""


def _add_by_atomics(statements):
    for statement in statements:
        if statement.opcode == "st.global.v4.b32":
            address, values = statement.operands
            yield statement, "".join(
                f"\tred.global.add.noftz.f16x2 {shift(address, 4 * i)}, {value};"
                for i, value in enumerate(registers(values)))


def _share_rows(statements):
    producers = _producers(statements)
    threads = {s.operands[0] for s in statements
               if s.opcode == "mov.u32" and s.operands[1] == "%tid.x"}
    for statement in statements:
        if re.fullmatch(r"shr\.[bu](32|64)", statement.opcode):
            name, source, amount = statement.operands
            if source in producers and "cvt" in producers[source].opcode:
                source = producers[source].operands[1]
            if source in threads and amount == "5":
                yield statement, f"\tmov.b{statement.opcode[-2:]} {name}, 0;"


def _turn_keys(statements):
    for statement in statements:
        if statement.opcode.startswith("wmma.load.b.sync.aligned.col."):
            yield statement, mutations.turn_layout(statement)


def _turn_keys_and_products(statements):
    yield from _turn_keys(statements)
    for statement in statements:
        if statement.opcode.startswith("wmma.mma.sync.aligned.row.col."):
            yield statement, mutations.turn_layout(statement, 1)


def _overwrite_sums(loop):
    """What comes from memory and is added to something rescaled."""
    producers = _producers(loop)
    for statement in loop:
        if not re.match(r"add\.(rn\.)?(ftz\.)?f32", statement.opcode):
            continue
        to, *terms = statement.operands
        opcodes = [_opcode_of(producers, term) for term in terms]
        if opcodes[0].startswith("mul.") and opcodes[1].startswith("ld.shared"):
            yield statement, f"\tmov.b32 {to}, {terms[1]};"


def _copy_half(statements):
    for statement in statements:
        if statement.opcode == "cp.async.cg.shared.global":
            halved = [str(int(size) // 2) if is_number(size) else size
                      for size in statement.operands[2:]]
            for i, size in enumerate(halved):
                statement = dataclasses.replace(
                    statement, operands=[*statement.operands[:2 + i], size,
                                         *statement.operands[3 + i:]])
            yield statement, str(statement)


def _forget_empty_rows(statements):
    """The choice of a shift where a row's maximum is -inf."""
    empty = {s.operands[0] for s in statements
             if re.match(r"setp\.eq\.(ftz\.)?f32", s.opcode) and
             s.operands[2] == "0fFF800000"}
    for statement in statements:
        if statement.opcode == "selp.f32" and statement.operands[3] in empty:
            to, _, otherwise, _ = statement.operands
            yield statement, f"\tmov.b32 {to}, {otherwise};"


def _store_all_rows(statements):
    """Branches past stores to global memory."""
    branch = None
    for statement in statements:
        if statement.opcode.startswith("bra"):
            branch = statement if statement.guard else None
        elif statement.opcode.startswith("st.global") and branch:
            yield branch, ""
            branch = None


@dataclasses.dataclass
class Bug:
    name: str
    group: str  # which of the ancestors' bugs it is
    schedule: str
    edit: str  # in words
    expected: dict  # tool -> what it must say, as a regular expression
    head_dim: int = 64
    causal: str = "none"
    sizes: tuple = (1, 2, 2, 64, 96)
    # The sizes are those of a call, so that inputs can be cut to a tile.
    is_dynamic: bool = False
    options: tuple = ()  # of flashcore-compile, and what is wrong of them
    change: object = None  # of the statements, or of those of each loop
    is_in_loop: bool = False
    declaration: tuple = ()  # (pattern, replacement) of the text
    shared: int = None  # bytes that the launch has
    stages: tuple = ()  # of flashcore-run, whose inputs isolate what is right


BUGS = [
    Bug("atomics", "P V by atomics", "fused-wmma-32x32",
        "O is added up by `red.global.add` in the place of `st.global`",
        {"flashcore-emu": r"uninitialized-memory: .*'o'"},
        change=_add_by_atomics),
    Bug("shared-rows", "P V by atomics", "fused-wmma-32x32",
        "all warps take the rows of the first", {"flashcore-emu": "shared-race: "},
        change=_share_rows),
    Bug("row-major-keys", "K read by rows", "fused-wmma-32x32",
        "`wmma.load.b` of K is `.row`, and `wmma.mma` says so",
        {"flashcore-emu": "layout-mismatch: "}, change=_turn_keys_and_products),
    Bug("turned-keys", "K read by rows", "+async",
        "`wmma.load.b` of K is `.row`, but `wmma.mma` says `.col`",
        {"flashcore-emu": "fragment-mismatch: "}, change=_turn_keys),
    Bug("overwritten", "O overwritten", "fused-wmma-32x32",
        "what a tile of keys gives replaces the sum, which is neither rescaled "
        "nor added to",
        {"flashcore-run": "LSE is right; PASS with --stage=tile"},
        change=_overwrite_sums, is_in_loop=True, is_dynamic=True,
        stages=("tile",)),
    Bug("options-too-large", "too much shared memory", "+64x64",
        "64 keys a tile at D 128",
        {"flashcore-compile": "needs 122880 bytes of shared memory .* but "
                              f"{CHIP} allows 101376"},
        head_dim=128, options=("--block-n=64",)),
    Bug("static-too-large", "too much shared memory", "+64x64",
        "the dynamic array is a static one of 64 KiB",
        {"ptxas": "uses too much shared data"},
        declaration=(r"\.extern (\.shared .* flashcore_shared)\[\]",
                     r"\1[65536]"), shared=0),
    Bug("launch-too-large", "too much shared memory", "+64x64",
        "the launch asks for 100 KiB",
        {"flashcore-emu": f"the limit of {CHIP} is 101376"}, shared=102400),
    Bug("launch-too-small", "too much shared memory", "+64x64",
        "the launch has 48 KiB, which is what there is without asking",
        {"flashcore-emu": "out-of-bounds: .*'dynamic shared memory'"},
        shared=49152),
    Bug("copies-of-8", "8 bytes by `cp.async.cg`", "+async",
        "each `cp.async.cg` copies 8 bytes",
        {"ptxas": "unexpected value '8', expected to be 16",
         "flashcore-emu": "cp.async.cg copies 16 bytes"}, change=_copy_half),
    Bug("empty-rows", "NaN in a warp", "fused-wmma-32x32",
        "-inf is subtracted from -inf in rows that see no key",
        {"flashcore-run": "O holds .* NaN"}, causal="bottom_right",
        sizes=(1, 1, 1, 64, 40), change=_forget_empty_rows),
    Bug("rows-past-the-end", "NaN in a warp", "fused-wmma-32x32",
        "rows past the end, which hold anything, are stored like others",
        {"flashcore-emu": "out-of-bounds: .*'o'"}, sizes=(1, 1, 1, 40, 96),
        change=_store_all_rows),
]


@dataclasses.dataclass
class Tools:
    compiler: pathlib.Path
    emulator: pathlib.Path
    runner: pathlib.Path
    ptxas: pathlib.Path


class Kernel:
    """A kernel with a bug, or as compiled."""

    def __init__(self, tools, directory, bug, is_broken):
        self.tools, self.bug = tools, bug
        self.name = f"{bug.name}-{'bug' if is_broken else 'good'}"
        self.says = {}
        options = [f"--schedule={bug.schedule}", f"--chip={CHIP}"]
        names = "batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k"
        self.dims = dict(zip(names, bug.sizes)) if bug.is_dynamic else {}
        source = emulation.attention("f16", bug.head_dim, bug.causal,
                                   None if bug.is_dynamic else bug.sizes)
        try:
            self.launch = emulation.compile_launch(
                str(tools.compiler), directory, self.name, source,
                options + (list(bug.options) if is_broken else []),
                dims=self.dims)
        except RuntimeError as error:
            self.launch = None
            self.says["flashcore-compile"] = first_error(str(error))
            return
        if is_broken:
            self.break_text()
            self.break_launch()

    def break_text(self):
        bug, path = self.bug, self.launch.ptx
        text = path.read_text()
        if bug.declaration:
            text, count = re.subn(*bug.declaration, text)
            expect(count == 1, bug, f"one '{bug.declaration[0]}'", count)
        if bug.change:
            lines = text.splitlines()
            regions = (ptx.loops(lines) if bug.is_in_loop else
                       [ptx.statements(lines)])
            changes = [each for region in regions
                       for each in bug.change(region)]
            expect(changes, bug, "a place for its edit", "none")
            text = mutations.Mutant(bug.schedule, bug.group, 0, bug.name,
                                    changes).apply(lines)
        path.write_text(text)

    def break_launch(self):
        """Of the bundle, which must agree with its PTX, and of the launch."""
        path = self.launch.ptx.parent / "manifest.json"
        manifest = json.loads(path.read_text())
        data = self.launch.ptx.read_bytes()
        manifest["variants"][0]["ptx"] |= {"bytes": len(data),
                                           "fnv1a64": f"{fnv1a64(data):016x}"}
        if self.bug.shared is not None:
            kernel, = manifest["variants"][0]["kernels"]
            kernel["dynamic_shared_memory"] = self.bug.shared
            at = self.launch.options.index("--shared")
            self.launch.options[at + 1] = str(self.bug.shared)
        path.write_text(json.dumps(manifest))

    def look(self):
        """What each tool says; nothing of those that do not mind."""
        if self.launch:
            self.says |= {name: text for name, text in (
                ("ptxas", self.assemble()), ("flashcore-emu", self.emulate()),
                ("flashcore-run", self.compare())) if text}
        return self.says

    def assemble(self):
        result = subprocess.run(
            [self.tools.ptxas, f"-arch={CHIP}", self.launch.ptx, "-o", "/dev/null"],
            capture_output=True, text=True)
        return first_error(result.stderr) if result.returncode else None

    def emulate(self):
        one = emulation.run(self.tools.emulator, self.launch,
                            [*mutants.LIMIT, *mutants.CHECKS])
        if one.returncode == 2:
            return first_error(one.text)
        if finding := mutants.FINDING.search(one.text):
            return self.with_tensors(
                plain(one.text[finding.start(2):].partition("\n")[0]))
        return None if one.returncode == 0 else first_error(one.text)

    def with_tensors(self, text):
        """Parameters by the names of their tensors."""
        kernel, = emulation.Bundle(self.launch.ptx.parent).kernels
        return re.sub(r"\w+_param_(\d+)",
                      lambda match: kernel.arguments[int(match[1])].tensor, text)

    def run(self, *options):
        options += tuple(f"--{name.replace('_', '-')}={size}"
                         for name, size in self.dims.items())
        result = subprocess.run(
            [self.tools.runner, self.launch.ptx.parent,
             "--device=emulator", "--emu-check=none", "--seed=1", *options],
            capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def compare(self):
        code, text = self.run()
        if code == 0:
            return None
        if code == 2:
            return first_error(text)
        words = f"FAIL: {self.with_tensors(failure(text))}"
        for stage in self.bug.stages:
            if self.run(f"--stage={stage}")[0] == 0:
                words += f"; PASS with --stage={stage}"
        return words


def fnv1a64(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def expect(condition, bug, wanted, got):
    if not condition:
        sys.exit(f"{bug.name}: expects {wanted} in a kernel of {bug.schedule}, "
                 f"but got {got}")


def plain(text):
    """Without what changes with every change of the compiler."""
    text = re.sub(r"%r\d+", "%r", text)
    text = re.sub(r"\bbyte \d+", "byte ...", text)
    text = re.sub(r"\S*/(\w+\.ptx):\d+:\d+", r"\1", text)
    return re.sub(r"\bline \d+", "line ...", text)


def failure(text):
    """What a run that failed is of, in short."""
    if finding := re.search(r"\.ptx:\d+: ([a-z-]+: .*)", text):
        return plain(finding[1])
    if error := re.search(r": error: (expects .*)", text):
        return plain(error[1])
    if nans := re.search(r"O holds \d+ NaN in \d+ elements", text):
        return nans[0]
    lse = re.search(r"lse (\S+) of (\S+) allowed", text)
    is_right = lse and float(lse[1]) <= float(lse[2])
    return "O is wrong" + (", LSE is right" if is_right else ", as LSE is")


def first_error(text):
    lines = [line for line in text.splitlines() if "rror" in line] or [text]
    return plain(re.sub(r"^.*?\berror\s*: ", "", lines[0]).strip())


def problems_of(bug, good, says):
    """What is wrong with what tools say of a kernel as compiled, and of it with
    the bug."""
    for tool, text in good.items():
        yield (f"{bug.name}: expects nothing of the kernel as compiled, but "
               f"{tool} says '{text}'")
    for tool, pattern in bug.expected.items():
        if not re.search(pattern, says.get(tool, "")):
            yield (f"{bug.name}: expects '{pattern}' of {tool}, but got "
                   f"{says.get(tool, 'nothing')!r}")


def check(bug, tools, directory):
    """What the tools say of a bug, and what is wrong with that."""
    good, says = (Kernel(tools, directory, bug, is_broken).look()
                  for is_broken in (False, True))
    return says, list(problems_of(bug, good, says))


def without_ptxas(record):
    says = {tool: tool == "ptxas" or text
            for tool, text in record["says"].items()}
    return {**record, "says": says}


def differences(recorded, got, is_all):
    """Lines that say where a run is not the one on record."""
    names = got.keys() | recorded.keys() if is_all else got.keys()
    for name in sorted(names):
        old, new = recorded.get(name), got.get(name)
        if not old or not new or without_ptxas(old) != without_ptxas(new):
            yield (f"{name}: expects what is on record (--record writes it), "
                   f"{json.dumps(old)}, but got {json.dumps(new)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("ptxas", type=pathlib.Path)
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("work_dir", type=pathlib.Path)
    parser.add_argument("--record", action="store_true", help="write FIGURES")
    parser.add_argument("--bug", help="only this one")
    parser.add_argument("-v", action="store_true", help="print what they say")
    args = parser.parse_args()
    args.work_dir.mkdir(parents=True, exist_ok=True)
    tools = Tools(*(args.tools / f"flashcore-{name}"
                    for name in ("compile", "emu", "run")), args.ptxas)
    todo = [bug for bug in BUGS if args.bug in (None, bug.name)]
    if args.record and len(todo) < len(BUGS):
        parser.error("--record is for a run of all bugs")
    records, problems = {}, []
    for bug in todo:
        says, wrong = check(bug, tools, args.work_dir)
        problems += wrong
        records[bug.name] = {
            "group": bug.group, "schedule": bug.schedule, "edit": bug.edit,
            "named by": list(bug.expected), "says": says}
        if args.v:
            print(bug.name, json.dumps(says, indent=1))
    if args.record:
        args.figures.write_text(json.dumps({"bugs": records}, indent=1) + "\n")
    problems += differences(json.loads(args.figures.read_text())["bugs"],
                            records, args.bug is None)
    print("\n".join(problems))
    print(f"{len(records)} bugs, {len(problems)} unexpected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
