"""Modules of the package import each other in no circle.

A circle is a low module that knows a high one. An import inside a function only hides it, and
one for types tells of it all the same, so both count. The sources are read; nothing is imported.
"""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "flashcore"


def modules_of(root):
    """{name: its file} of a package; what is not Python has a stub."""
    found = {}
    for path in (*root.rglob("*.py"), *root.rglob("*.pyi")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def packages_of(name):
    """Those which a module is in: a module is imported after them."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def base_of(node, name, path):
    """The absolute name behind ``from``."""
    if not node.level:
        return node.module
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


def names_in(node, name, path, modules):
    """The modules that a node of the syntax tree of a module names, if it imports any."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = base_of(node, name, path)
        inner = [f"{base}.{alias.name}" for alias in node.names]
        return [each if each in modules else base for each in inner]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
        said = node.args[0]
        if isinstance(said, ast.JoinedStr) and isinstance(said.values[0], ast.Constant):
            package = said.values[0].value
            return [each for each in modules if each.rpartition(".")[0] == package.rstrip(".")]
        return [said.value] if isinstance(said, ast.Constant) else []
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        return [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    return []


def imports_of(name, path, modules):
    """Which other modules must be there for all of one to work, and the packages they are in."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for each in names_in(node, name, path, modules):
            found |= {each} | (packages_of(each) - packages_of(name))
    return found & set(modules) - {name}


def expect_order(root):
    """Raises AssertionError, which names the circle, where there is one."""
    modules = modules_of(root)
    graph = {name: imports_of(name, path, modules) for name, path in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # Each is imported by the next.
        circle = " -> ".join(reversed(error.args[1]))
        raise AssertionError(f"expects no circle of imports, but got {circle}") from None


def test_no_circle():
    expect_order(ROOT)


#: What stands in low.py, which high.py imports.
LINKS = {
    "a module": "import package.high",
    "a name": "from package.high import f",
    "a module of a package": "from package import high",
    "a relative name": "from .high import f",
    "in a function": "def g():\n    from package.high import f",
    "for types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package import high",
    "by its name": "import importlib\nhigh = importlib.import_module('package.high')",
    "by a name that is made": "import importlib\nf = lambda n: importlib.import_module(f'package.{n}')",
    "that is there": "import sys\nhigh = sys.modules['package.high']",
    "in a package that imports it": "def g():\n    import package.upper.leaf",
}


@pytest.mark.parametrize("link", [None, *LINKS])
def test_a_circle_is_found(tmp_path, link):
    package = tmp_path / "package"
    (package / "upper").mkdir(parents=True)
    for path, text in {
        "__init__.py": "from package.high import f",
        "high.py": "from package import low\ndef f(): pass",
        "low.py": LINKS.get(link, "import os"),
        "upper/__init__.py": "from package import low",
        "upper/leaf.py": "from package.upper import middle",
        "upper/middle.py": "",
    }.items():
        (package / path).write_text(text)
    if link is None:
        return expect_order(package)
    with pytest.raises(AssertionError, match=r"expects no circle of imports, but got package\.\S+ -> ") as caught:
        expect_order(package)
    assert "package.low" in str(caught.value)
