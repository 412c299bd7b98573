"""Names of operands stand in signatures and in the compiler's table, nowhere else."""

import ast
import os
import pathlib

import flashcore
from flashcore import _core, operands

#: Modules whose business is names: what others call an argument, and what we do.
INTERFACES = {
    "attention.py", "flash_attn.py", "flash_attn_caches.py", "flash_attn_interface.py",
    "foreign_names.py", "serving/vllm.py", "torch/registry.py",
    "transformers.py", "transformers_flash.py",
}  # fmt: skip


def names_of_operands():
    """Arguments and tensors of the table but q, k, v and bias, which every call has, and
    results."""
    rows = [row for row in _core.operands() if row[0] in operands.CLAUSES]
    return {name for argument, tensor, *_ in rows for name in (argument, tensor)}


def spelled(source, names):
    """(line, name) of each that code spells, where it is no parameter, keyword of a call, schema
    of an operator or part of a docstring."""
    found = []

    def visit(node, parameters):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            signature = node.args
            every = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
            parameters = parameters | {parameter.arg for parameter in every}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_schema = "(Tensor" in node.value
            words = set("".join(c if c.isalnum() or c == "_" else " " for c in node.value).split())
            found.extend((node.lineno, name) for name in words & names if not is_schema)
        elif isinstance(node, ast.Name) and node.id in names - parameters:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and node.attr in names:
            found.append((node.lineno, node.attr))
        for child in ast.iter_child_nodes(node):
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not is_text:
                visit(child, parameters)

    visit(ast.parse(source), frozenset())
    return found


def test_what_spells_a_name():
    source = '''
def f(sinks, rng=None):
    """Of sinks."""
    return g(sinks, rng=rng)

x = given["rng"]
y = call.page_table
raise ValueError(f"expects no page_table, but got {y}")
'''
    found = spelled(source, {"sinks", "rng", "page_table"})
    assert found == [(6, "rng"), (7, "page_table"), (8, "page_table")]


def modules(root):
    """Of the package; folders of a build tree are links."""
    for folder, _, names in os.walk(root, followlinks=True):
        yield from (pathlib.Path(folder) / name for name in names if name.endswith(".py"))


def test_no_name_outside_of_signatures():
    root = pathlib.Path(flashcore.__file__).parent
    names = names_of_operands()
    assert {"sinks", "sink_logits", "page_table"} <= names and "q" not in names
    found = {
        f"{path.relative_to(root)}:{line}: {name}"
        for path in modules(root)
        if str(path.relative_to(root)) not in INTERFACES
        and path.relative_to(root).parts[0] != "_benchmarks"  # in the wheel, but no part of this
        for line, name in spelled(path.read_text(), names)
    }
    assert not found, sorted(found)


def test_groups_of_the_table():
    assert operands.ENDS == ("cu_seqlens_q", "cu_seqlens_k")
    assert (operands.LENGTHS, operands.PAGES) == ("seqused_k", "page_table")
    assert operands.NEW_ROWS == ("k_new", "v_new")
    assert operands.ANGLES == ("rotary_cos", "rotary_sin")
    assert (operands.SEED, operands.SINKS) == ("rng", "sinks")
    assert operands.of_use("Score") == ("head_scales", "alibi_slopes")
    assert len(operands.LISTS) == 4
