"""Functions of score_mod and mask_mod that a command line names."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from typing import Any, Callable, Optional, Tuple

from flashcore.cli.command import UsageError

__all__ = ["add_function_arguments", "read_functions"]

Function = Callable[..., Any]


def add_function_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds ``--score-mod`` and ``--mask-mod``."""
    for name in ("score-mod", "mask-mod"):
        parser.add_argument(
            f"--{name}",
            metavar="FILE:NAME",
            help=f"a function of a Python file, or of a module, that is the call's {name}",
        )


def read_functions(options: argparse.Namespace) -> Tuple[Optional[Function], Optional[Function]]:
    """score_mod and mask_mod, None where the command line has none."""
    return _read("--score-mod", options.score_mod), _read("--mask-mod", options.mask_mod)


def _read(option: str, text: Optional[str]) -> Optional[Function]:
    if text is None:
        return None
    source, separator, name = text.rpartition(":")
    if not separator or not source or not name:
        raise UsageError(f"expects {option} to be FILE:NAME, but got '{text}'")
    try:
        module = _load(source)
    except Exception as error:  # whatever the file does
        raise UsageError(
            f"expects {option} of a file that can be run, but '{source}' raised "
            f"{type(error).__name__}: {error}"
        ) from None
    if not hasattr(module, name):
        raise UsageError(f"expects {option} of a function in '{source}', but got '{name}'")
    function: Function = getattr(module, name)
    return function


def _load(source: str) -> Any:
    """The module of a file or of a name."""
    if not source.endswith(".py"):
        return importlib.import_module(source)
    spec = importlib.util.spec_from_file_location("flashcore_functions", source)
    if spec is None or spec.loader is None:
        raise ImportError("it is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
