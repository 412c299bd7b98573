"""How public names end. docs/Compatibility.md has the rule, ``DEPRECATED`` the names.

A name or parameter that is replaced stays as it was, with a warning, for two minor versions.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Dict, Tuple, TypeVar, cast

__all__ = ["DEPRECATED", "keywords", "warn"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: What is deprecated, as test/Compatibility/python.txt writes it: since which version, and
#: what to use. {"flashcore.old": ("0.2", "flashcore.new"), "flashcore.merge(old)": ("0.2", "new")}
DEPRECATED: Dict[str, Tuple[str, str]] = {}


def warn(name: str, stacklevel: int = 1) -> None:
    """Says that a name of ``DEPRECATED`` is used, where its user's line is.

    stacklevel: as of ``warnings.warn``, for the caller of this function.
    """
    since, instead = DEPRECATED[name]
    warnings.warn(
        f"flashcore: {name} is deprecated since {since} and ends with {_end(since)}: use {instead}",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def _end(since: str) -> str:
    """The first version that may lack it."""
    major, minor = since.split(".")[:2]
    return f"{major}.{int(minor) + 2}"


def keywords(name: str) -> Callable[[Function], Function]:
    """A decorator of the function ``name``, whose deprecated parameters have new names."""
    renamed = {
        key[len(name) + 1 : -1]: instead
        for key, (_, instead) in DEPRECATED.items()
        if key.startswith(f"{name}(")
    }

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            for old in renamed.keys() & given.keys():
                new = renamed[old]
                if new in given:
                    raise TypeError(f"expects {new} alone, but got {old}, its old name, too")
                warn(f"{name}({old})", stacklevel=2)
                given[new] = given.pop(old)
            return function(*arguments, **given)

        return cast(Function, call)

    return decorate
