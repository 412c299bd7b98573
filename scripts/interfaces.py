#!/usr/bin/env python3
"""Records what programs rely on: test/Compatibility/c.txt and python.txt.

The first has the C interface as compiled programs see it: the name of the
library, functions with their types, values of enumerations and macros, sizes
and offsets of structs. The second has the public names of the Python package
with their parameters. A line is a fact, so that the diff of these files is
what a reviewer reads.

Without an option both are written. --check says what differs from them, and
what of it breaks programs; --against FOLDER compares them with those of an
older release and fails where something breaks that it may not: of C where the
library has the same name, of Python where the name was not deprecated
(docs/Compatibility.md).
"""
import argparse
import ast
import functools
import json
import pathlib
import re
import subprocess
import sys

from llvm import BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "test/Compatibility"
HEADERS = ("include/flashcore-c", "runtime/emulator/include/flashcore-c")
#: Behind what a deprecated name or parameter is.
DEPRECATED = ", deprecated since "
#: Modules whose __all__ is public; of others nothing is.
MODULES = ("", "bundle", "cache", "compiler", "device", "emulator", "flash_attn", "flash_attn_interface", "torch", "transformers")


class Failure(Exception):
    """Printed alone."""


# C --------------------------------------------------------------------------


def record_c(clang):
    """{fact: what it is}, of all C headers together."""
    headers = [path for folder in HEADERS for path in sorted((ROOT / folder).glob("*.h"))]
    source = "".join(f'#include "{path}"\n' for path in headers)
    includes = [f"-I{(ROOT / folder).parent}" for folder in HEADERS]

    def run(*options):
        command = [clang, "-x", "c", "-std=c11", "--target=x86_64-linux-gnu", "-fsyntax-only", *includes, *options, "-"]
        result = subprocess.run(command, input=source, capture_output=True, text=True)
        if result.returncode:
            raise Failure(f"the C headers do not compile:\n{result.stderr}")
        return result.stdout

    facts = {"library": library_name()}
    facts.update(functions_and_enums(json.loads(run("-Xclang", "-ast-dump=json"))))
    facts.update(structs(run("-Xclang", "-fdump-record-layouts-complete")))
    facts.update(macros(run("-E", "-dM")))
    return facts


def library_name():
    text = (ROOT / "lib/CAPI/CMakeLists.txt").read_text()
    return "libflashcore.so." + re.search(r"SOVERSION (\d+)", text)[1]


def functions_and_enums(tree):
    for node in tree["inner"]:
        name = node.get("name", "")
        if node["kind"] == "FunctionDecl" and name.startswith("flashcore"):
            yield f"function {name}", node["type"]["qualType"]
        elif node["kind"] == "EnumDecl" and name.startswith("FlashCore"):
            value = -1
            for constant in (each for each in node["inner"] if each["kind"] == "EnumConstantDecl"):
                given = constant.get("inner", [{}])[0].get("value")
                value = value + 1 if given is None else int(given)
                yield f"enum {name}.{constant['name']}", str(value)


def structs(text):
    """Of clang's layouts: '  8 |   const int64_t * sizes'."""
    for layout in text.split("*** Dumping AST Record Layout")[1:]:
        name = re.search(r"\| struct (FlashCore\w+)$", layout, re.M)
        if not name:
            continue
        size, alignment = re.search(r"\[sizeof=(\d+), align=(\d+)", layout).groups()
        yield f"struct {name[1]}", f"{size} bytes, alignment {alignment}"
        for offset, what, field in re.findall(r"^ +(\d+) \|   (\S.*?) ?\b(\w+)$", layout, re.M):
            yield f"struct {name[1]}.{field}", f"offset {offset}, {what}"


def macros(text):
    """Those with a value, which is in the callers' code."""
    for name, value in re.findall(r"^#define (FLASHCORE_STREAM_\w+) (.+)$", text, re.M):
        yield f"macro {name}", value


# Python ---------------------------------------------------------------------


def record_python():
    """{fact: what it is}, of the sources: none is imported."""
    facts, names = {}, {}
    for module in MODULES:
        for short in assigned(module, "__all__"):
            name, node = ".".join(filter(None, ("flashcore", module, short))), find(module, short)
            known = names.setdefault(id(node), name) if node else name
            facts.update(describe(name, node) if known == name else {name: f"the same as {known}"})
    for fact, (since, _) in assigned("deprecation", "DEPRECATED").items():
        facts[fact] = f"{facts.get(fact, 'value')}{DEPRECATED}{since}"
    return facts


def assigned(module, name):
    """The value of a literal that a module names."""
    for node in tree_of(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and ast.unparse(targets[0]) == name:
            return ast.literal_eval(node.value)
    raise Failure(f"expects {name} in flashcore.{module}, but got none")


@functools.cache
def tree_of(module):
    base = ROOT / "python/flashcore" / module.replace(".", "/")
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(path.read_text())


def find(module, name):
    """The definition of a name, behind its overloads and through imports; None for what is
    neither function nor class."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            if "overload" not in map(ast.unparse, node.decorator_list):
                return node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flashcore"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    inner = node.module.removeprefix("flashcore").lstrip(".")
                    path = ROOT / "python/flashcore" / inner.replace(".", "/") / alias.name
                    return None if path.with_suffix(".py").exists() else find(inner, alias.name)
    return None


def describe(name, node):
    if isinstance(node, ast.FunctionDef):
        is_property = any(ast.unparse(each).endswith("property") for each in node.decorator_list)
        yield name, "property" if is_property else "function"
        if not is_property:
            yield from parameters(name, node)
    elif isinstance(node, ast.ClassDef):
        yield name, f"class({', '.join(map(ast.unparse, node.bases))})"
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and (not member.name.startswith("_") or is_constructor(member)):
                yield from describe(f"{name}.{member.name}", member)
            elif isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_"):
                yield f"{name}.{member.target.id}", "field" if member.value is None else "field with a default"
    else:
        yield name, "value"


def is_constructor(node):
    """Of a class that users make: what the extension holds they do not have."""
    return node.name == "__init__" and "_core." not in ast.unparse(node.args)


def parameters(name, node):
    """'positional 0' is given by place or name, 'keyword' by name alone."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    for place, each in enumerate(positional):
        if each.arg not in ("self", "cls"):
            yield f"{name}({each.arg})", f"positional {place}{'' if place < required else ', optional'}"
    for each, default in zip(given.kwonlyargs, given.kw_defaults):
        yield f"{name}({each.arg})", f"keyword{'' if default is None else ', optional'}"
    for star, each in (("*", given.vararg), ("**", given.kwarg)):
        if each:
            yield f"{name}({star})", "any, optional"


# Comparing ------------------------------------------------------------------


def compare(old, new):
    """(breaks, additions), each a line."""
    breaks, additions = [], []
    for fact, what in old.items():
        if fact not in new:
            breaks.append(f"expects {fact}: {what}, but got none")
        elif new[fact].split(DEPRECATED)[0] != what.split(DEPRECATED)[0]:
            breaks.append(f"expects {fact}: {what}, but got {new[fact]}")
        elif new[fact] != what:
            additions.append(f"{fact}: {new[fact]}")
    for fact in new.keys() - old.keys():
        (breaks if is_breaking_addition(fact, new[fact], old) else additions).append(f"{fact}: {new[fact]} is new")
    return sorted(breaks), sorted(additions)


def is_breaking_addition(fact, what, old):
    """What callers that are compiled, or calls that are written, do not give."""
    if fact.startswith("struct "):
        return fact.rsplit(".", 1)[0] in old
    parent = fact.split("(")[0]
    return parent != fact and parent in old and "optional" not in what


def read(path):
    try:
        return dict(line.split(": ", 1) for line in path.read_text().splitlines())
    except OSError as error:
        raise Failure(f"cannot read '{path}': {error.strerror}")


def write(path, facts):
    path.write_text("".join(f"{fact}: {what}\n" for fact, what in sorted(facts.items())))


def check(records):
    failed = False
    for name, facts in records.items():
        breaks, additions = compare(read(RECORDS / name), facts)
        failed = failed or breaks or additions
        for line in breaks:
            print(f"test/Compatibility/{name}: {line}; this breaks programs: docs/Compatibility.md says what that asks for")
        for line in additions:
            print(f"test/Compatibility/{name}: {line}")
    if failed:
        print("interfaces: where this is meant, scripts/interfaces.py records it")
    return int(bool(failed))


def check_against(folder, records):
    """Whether a release that has `records` may follow that of `folder`."""
    breaks = []
    for name, facts in records.items():
        old = read(folder / name)
        if old.get("library") != facts.get("library"):
            continue  # programs of the old one do not load it
        ended = [fact for fact, what in old.items() if DEPRECATED in what]
        breaks += compare({fact: what for fact, what in old.items() if fact not in ended}, facts)[0]
    for line in breaks:
        print(f"interfaces: {line}")
    return int(bool(breaks))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", default=BIN / "clang", help="clang, for layouts (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--against", type=pathlib.Path, metavar="FOLDER", help="test/Compatibility of an older release")
    options = parser.parse_args()
    try:
        records = {"c.txt": record_c(options.clang), "python.txt": record_python()}
        if options.against:
            return check_against(options.against, records)
        if options.check:
            return check(records)
    except Failure as failure:
        print(f"interfaces: {failure}", file=sys.stderr)
        return 2
    for name, facts in records.items():
        write(RECORDS / name, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
