"""Problems that the user gives: in the words of flashcore-compile --shape, or
as .mlir files.

The compiler alone reads them; what they are is in the manifest of the bundle
that it makes.
"""

import math
import pathlib
import re
import tempfile

from .errors import UserError
from .package import read
from .problems import Problem
from .toolchain import Refused

GROUP = "given"
_DTYPES = ("f16", "bf16")
# What contenders are given and compute.
_TENSORS = {"q", "k", "v", "bias", "o", "lse"}
_BIAS_LETTERS = {
    "batch": "b",
    "heads_q": "h",
    "seqlen_q": "q",
    "seqlen_k": "k",
    "1": "1",
}


def add_options(parser):
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="WORDS",
        help="an attention of these words, such as 'b1 h32/8 s4096 d128 bf16 "
        "causal window=1024'; flashcore-compile --help lists them; may be given "
        "several times",
    )
    parser.add_argument(
        "--mlir",
        action="append",
        default=[],
        type=pathlib.Path,
        metavar="FILE",
        help="the attention of an .mlir file with static sizes; may be given "
        "several times",
    )


def load(arguments, toolchain):
    """The problems of --shape and --mlir, compiled once to know their sizes."""
    sources = [
        (slug(words), _write_shape(words, toolchain))
        for words in arguments.shape
    ]
    sources += [(slug(path.stem), _read(path)) for path in arguments.mlir]
    return _unique(
        describe(name, _compile(name, source, toolchain), source)
        for name, source in sources
    )


def load_compiled(arguments, folder):
    """The same without a compiler: from the bundles of `flashcore-bench
    compile` in `folder`."""
    names = [slug(words) for words in arguments.shape]
    names += [slug(path.stem) for path in arguments.mlir]
    return _unique(describe(name, _find(name, folder), None) for name in names)


def slug(text):
    """A name for files and tables."""
    return re.sub(r"[^a-z0-9.?]+", "-", text.lower()).strip("-") or "default"


def _unique(found):
    by_name = {}
    for problem in found:
        if problem.name in by_name:
            raise UserError(
                f"expects names that differ, but got '{problem.name}' twice"
            )
        by_name[problem.name] = problem
    return list(by_name.values())


def _write_shape(words, toolchain):
    result = toolchain.run("compile", [f"--shape={words}", "--emit=input"])
    if result.returncode:
        raise UserError(result.stderr.strip())
    return result.stdout


def _read(path):
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UserError(f"cannot read '{path}': {reason}")


def _compile(name, source, toolchain):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.fcb"
        try:
            toolchain.compile(source, path, ["--no-cubin"])
        except Refused as error:
            raise UserError(f"{name}: {error}")
        return read(path)


def _find(name, folder):
    for dtype in _DTYPES:
        path = pathlib.Path(folder) / f"{name}-{dtype}.fcb"
        if path.exists():
            return read(path)
    raise UserError(
        f"no bundle '{folder}/{name}-f16.fcb': make it with flashcore-bench "
        "compile, with the same --shape or --mlir"
    )


def describe(name, bundle, source):
    """The problem that a bundle was made for."""
    attention, tensors = bundle.attention, bundle.tensors
    dims = attention["dims"]
    missing = [dim for dim, size in dims.items() if size is None]
    if missing:
        raise UserError(
            f"{name}: expects sizes that are known, but got none for "
            f"{', '.join(missing)}"
        )
    others = [tensor for tensor in tensors if tensor not in _TENSORS]
    others += [region for region in ("score", "mask") if region in attention]
    if others:
        raise UserError(
            f"{name}: expects what peers compute, too (q, k, v, a bias, o and "
            f"lse), but got {', '.join(others)}"
        )
    scale, usual = attention["softmax_scale"], dims["head_dim"] ** -0.5
    is_usual = math.isclose(scale, usual, rel_tol=1e-6)
    bias = None
    if "bias" in tensors:
        axes = "".join(_BIAS_LETTERS[a] for a in tensors["bias"].axes)
        bias = (tensors["bias"].dtype, axes)
    sizes = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
    return Problem(
        name,
        GROUP,
        *(dims[size] for size in sizes),
        head_dim=dims["head_dim"],
        causal=attention["causal"] != "none",
        dtype=tensors["q"].dtype,
        head_dim_v=dims["head_dim_v"],
        is_top_left=attention["causal"] == "top_left",
        window=(attention["window_left"], attention["window_right"]),
        softcap=attention["softcap"],
        lse="lse" in tensors,
        scale=None if is_usual else scale,
        bias=bias,
        source=source,
    )
