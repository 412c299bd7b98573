"""The Python package: the one that this folder is a part of, or the tree's.

Its reader of bundles needs no build, so it is read where it lies. Devices need
the package as it is installed, or as a build leaves it in build/release/python.
"""

import sys

from .errors import UserError
from .toolchain import IS_INSTALLED, ROOT

if not IS_INSTALLED:
    sys.path += [f"{ROOT}/python/flashcore", f"{ROOT}/build/release/python"]

if IS_INSTALLED:
    from flashcore.bundle import Bundle, BundleError, chip_number
    from flashcore.finite import finite
else:
    from bundle import Bundle, BundleError, chip_number
    from finite import finite

__all__ = [
    "Bundle",
    "BundleError",
    "chip_number",
    "finite",
    "import_package",
    "open_device",
    "parse_shape",
    "read",
]


def read(path, chip=None):
    """The bundle at `path`, or a UserError."""
    try:
        return Bundle(path, chip)
    except BundleError as error:
        raise UserError(str(error))


def import_package():
    """The module flashcore, or a UserError."""
    try:
        import flashcore
    except ImportError as error:
        raise UserError(
            f"{error}; run needs FlashCore's Python package: install its wheel, "
            "or build flashcore-python and put its folder on PYTHONPATH"
        )
    return flashcore


def open_device():
    """The GPU that PyTorch calls cuda:0, and the class of its errors."""
    flashcore = import_package()
    return flashcore.open_device("cuda"), flashcore.Error


def parse_shape(words):
    """The flashcore.problem.Problem that words of --shape stand for, or a
    UserError."""
    import_package()
    from flashcore.problem import Problem

    try:
        return Problem.parse(words)
    except ValueError as error:
        raise UserError(str(error))
