"""The distribution that brings this package, and the one that it cannot stand beside.

The package index has a ``flashcore`` of somebody else. Both have files of the
same names in the folder ``flashcore``: whichever is installed last replaces
those of the other, and whichever goes takes them along.
"""

from __future__ import annotations

import os

__all__ = ["NAME", "expect_alone"]

#: What ``pip install`` takes; what ``import`` takes is ``flashcore``.
NAME = "flashcore-attention"


def expect_alone(package: str) -> None:
    """Raises ImportError where the other distribution is installed into the same place.

    package: the folder of this package.

    The folder that it lies in is listed, which takes some microseconds;
    ``importlib.metadata`` would take longer than the rest of the import.
    """
    try:
        beside = os.listdir(os.path.dirname(os.path.abspath(package)))
    except OSError:  # no folder, so nothing was installed there
        return
    for name in beside:
        stem, suffix = os.path.splitext(name)
        if suffix in (".dist-info", ".egg-info") and stem.split("-")[0].lower() == "flashcore":
            other = " ".join(stem.split("-")[:2])
            raise ImportError(
                f"expects {NAME} to be the only distribution with a package flashcore, but got "
                f"{other}, which is another project: each replaces files of the other; run "
                f"pip uninstall flashcore {NAME}, then install {NAME} again",
                name="flashcore",
                path=package,
            )


expect_alone(os.path.dirname(__file__))
