"""Compiled kernels on disk.

Kernels are kept in the folder ``bundles`` of ``$FLASHCORE_CACHE_DIR``, else of
``flashcore`` in ``$XDG_CACHE_HOME``, else of ``~/.cache/flashcore``, where
relative paths in ``$XDG_CACHE_HOME`` and ``$HOME`` are ignored.
``FLASHCORE_CACHE_DIR=`` (set to nothing) turns the cache off, and
``FLASHCORE_CACHE_SIZE`` bounds it (such as ``200M``; default ``512M``): what was
not used for longest goes first.

An entry's name is a hash of all that its kernel depends on: the problem, the
chip, the schedule, the compiler and ptxas. Entries are made beside their place
and renamed there, so many processes may share a folder. An entry that is
damaged, or of which somebody else owns a file or may write to one, is made
anew and never used.

``FLASHCORE_KERNELS`` names a folder that :func:`precompile` has filled. Kernels
are looked up there first, and found without a compiler.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

from flashcore import _core
from flashcore.codegen import Kernel, assembler, writer
from flashcore.errors import Error
from flashcore.kinds import read
from flashcore.problem import Merge, Problem, Schedule, invariant_schedule, without_sizes

__all__ = ["Entry", "clear", "entries", "path", "precompile", "prune", "size_limit"]

_FORMAT = 1
_BUNDLE = "kernel.fcb"
_RECORD = "entry.json"
_NEW = ".new-"
#: Seconds after which what a process left half made is no longer its business.
_ABANDONED = 3600.0


@dataclass(frozen=True)
class Entry:
    """A kernel of the cache.

    words, chip, schedule: what it was compiled from.
    bytes: its size on disk.
    last_used: seconds since 1970.
    path: its folder.
    """

    words: str
    chip: str
    schedule: Schedule
    bytes: int
    last_used: float
    path: Path


def path() -> Optional[Path]:
    """The folder of compiled kernels; None if the cache is turned off."""
    root = os.environ.get("FLASHCORE_CACHE_DIR")
    if root is not None:
        return Path(root, "bundles").absolute() if root else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored: they lead elsewhere in each folder.
    home = Path(base) if os.path.isabs(base) else _home() / ".cache"
    return home / "flashcore" / "bundles"


def _home() -> Path:
    named = os.environ.get("HOME", "")
    if os.path.isabs(named):
        return Path(named)
    import pwd

    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        raise Error(
            f"expects HOME to be an absolute path, but got {named!r}, and this user is in no "
            "database of users: set FLASHCORE_CACHE_DIR, to nothing for no cache"
        ) from None


def size_limit() -> int:
    """Bytes that the cache may have, from ``FLASHCORE_CACHE_SIZE``."""
    text = os.environ.get("FLASHCORE_CACHE_SIZE", "512M")
    return parse_size(text, "FLASHCORE_CACHE_SIZE")


def parse_size(text: str, name: str) -> int:
    """Bytes of a text such as "200M"; ``name`` is what errors call it."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdigit():
        raise ValueError(
            f"expects {name} to be a number of bytes, or one with K, M or G, but got {text!r}"
        )
    return int(digits) * unit


def entries(folder: Optional[Path] = None) -> List[Entry]:
    """The kernels of the cache, or of ``folder``; the last used come last."""
    folder = folder or path()
    found = [] if folder is None else list(_entries(folder))
    return sorted(found, key=lambda entry: entry.last_used)


def clear() -> int:
    """Deletes all kernels of the cache; returns how many."""
    found = entries()
    for entry in found:
        _delete(entry.path)
    return len(found)


def prune(limit: Optional[int] = None) -> int:
    """Deletes what was not used for longest until ``limit`` bytes are left.

    Returns the number of kernels that were deleted. The default is
    :func:`size_limit`.
    """
    if limit is None:
        limit = size_limit()
    folder = path()
    if folder is not None:
        _sweep(folder)
    found = entries()
    total = sum(entry.bytes for entry in found)
    deleted = 0
    for entry in found:
        if total <= limit:
            break
        _delete(entry.path)
        total -= entry.bytes
        deleted += 1
    return deleted


def precompile(
    problems: Iterable[str],
    folder: "str | os.PathLike[str]",
    *,
    chips: Optional[Iterable[str]] = None,
    static: bool = False,
    multiprocessors: int = 132,
    batch_invariant: bool = False,
    score_mod: Optional[Callable[..., Any]] = None,
    mask_mod: Optional[Callable[..., Any]] = None,
) -> List[Entry]:
    """Compiles the kernels that calls of these problems use, into ``folder``.

    problems: words of ``flashcore-compile --shape``, such as
        "b8 h32/8 s1x4096 d128 bf16 causal", or of a merge, such as "merge d128 bf16". Sizes may
        be open ("b? h? s?x? d128"): then the kernels of all sizes are made. Those of decode
        (one query) should say batch and heads.
    chips: such as "sm_80"; all of the compiler by default.
    static: kernels for exactly these sizes, as ``attention(static=True)`` has.
    multiprocessors: of the GPU, which say whether the keys of a decode are split.
    batch_invariant: kernels of calls with batch_invariant=True, and no schedule.
    score_mod, mask_mod: functions that the calls of all these problems have; tensors that they
        read may be any of their types and ranks.

    ``flashcore.kernels.export`` does it for calls that were made.

    With ``FLASHCORE_KERNELS`` set to the folder, these calls need no compiler.
    """
    static, batch_invariant = read("static", static), read("batch_invariant", batch_invariant)
    multiprocessors = read("multiprocessors", multiprocessors)
    if multiprocessors < 1:
        raise ValueError(f"expects multiprocessors of at least 1, but got {multiprocessors}")
    if isinstance(problems, str):
        raise TypeError(f"expects problems to be a list of words, but got a str: write [{problems!r}]")
    target = read_folder(folder)
    every_chip = read_chips(chips) or _core.chips()
    regions = _regions_of(score_mod, mask_mod)

    def kernels_of(words: Any, chip: str) -> "Iterator[tuple[str, Schedule]]":
        if isinstance(words, (Problem, Merge)):
            words = words.words()
        if not isinstance(words, str):
            raise TypeError(f"expects problems to be a list of words, but got one of {words!r}")
        if words.startswith("merge"):
            yield Merge.parse(words).words(), ()
            return
        problem = Problem.parse(words)
        if regions:
            problem = replace(problem, regions=(*problem.regions, *regions))
        served = (
            [(problem, ())]
            if static
            else problem.kernel_classes(multiprocessors, batch_invariant, chip)
        )
        for problem, schedule in served:
            yield problem.words(), invariant_schedule(schedule) if batch_invariant else schedule

    wanted = [
        Kernel(words, chip, schedule, assembler())
        for given in problems
        for chip in every_chip
        for words, schedule in kernels_of(given, chip)
    ]
    for kernel in wanted:
        put(target, kernel)
    return entries(target)


def read_folder(folder: Any) -> Path:
    """An argument that names a folder, which may be one to come."""
    if not isinstance(folder, (str, os.PathLike)) or folder == "":
        raise TypeError(f"expects folder to be a path, but got {folder!r}")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise NotADirectoryError(f"expects folder to be a folder, but got the file {folder}")
    return Path(folder)


def read_chips(chips: Any) -> List[str]:
    """An argument that lists chips by their names; empty for None."""
    if chips is None:
        return []
    if isinstance(chips, str) or not hasattr(chips, "__iter__"):
        raise TypeError(f"expects chips to be a list of names such as 'sm_80', but got {chips!r}")
    names = list(chips)
    for name in names:
        if name not in _core.chips():
            raise ValueError(
                f"expects chips to be of {', '.join(_core.chips())}, but got {name!r}"
            )
    return names


def _regions_of(
    score_mod: Optional[Callable[..., Any]], mask_mod: Optional[Callable[..., Any]]
) -> "tuple[str, ...]":
    if score_mod is None and mask_mod is None:
        return ()
    from flashcore.mods import read_mods  # which few programs need here

    return read_mods(score_mod, mask_mod)[0][0]


def put(folder: Path, kernel: Kernel) -> None:
    """Compiles a kernel into a folder for ``FLASHCORE_KERNELS``, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / _portable_key(kernel)
    if _load(place, kernel) is None:
        _make(folder, place, kernel, writer(kernel))
        place.chmod(0o755)  # deployments may have another user


def fetch(
    kernel: Kernel,
    write: Callable[[Path], None],
    runs: "Callable[[_core.Bundle], bool]" = lambda bundle: True,
    is_of_sizes: bool = False,
) -> "_core.Bundle":
    """The bundle of a kernel, which ``write(path)`` makes if nobody has yet.

    runs: whether the device has room for a kernel that was compiled before, for
        another chip.
    is_of_sizes: whether one of ``FLASHCORE_KERNELS`` for calls of other sizes will do.
    """
    bundle = _precompiled(kernel, runs, is_of_sizes)
    folder = path()
    if bundle is not None:
        return bundle
    if folder is None or why_unusable(folder):
        return _make_unkept(kernel, write)
    place = folder / _key(kernel)
    bundle = _load(place, kernel) if _is_ours(place) else None
    if bundle is not None:
        _touch(place)
        return bundle
    try:
        bundle = _make(folder, place, kernel, write)
    except OSError:  # a full or read-only disk is no reason to fail
        return _make_unkept(kernel, write)
    prune()
    return bundle


# Names ----------------------------------------------------------------------


def _digest(*parts: object) -> str:
    import hashlib

    text = json.dumps([_FORMAT, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _key(kernel: Kernel) -> str:
    return _digest(kernel.record(), kernel.assembler, _compiler_id())


def _portable_key(kernel: Kernel) -> str:
    """Of a kernel that any build may use."""
    return _digest(kernel.record())


_compiler: Optional[List[object]] = None


def _compiler_id() -> List[object]:
    """Another build of the library compiles other kernels."""
    global _compiler
    if _compiler is None:
        here = Path(_core.__file__).parent
        library = next(here.glob("lib/libflashcore.so*"), Path(_core.__file__))
        info = library.stat()
        _compiler = [_core.version(), info.st_size, info.st_mtime_ns]
    return _compiler


# Reading --------------------------------------------------------------------


def _precompiled(
    kernel: Kernel, runs: "Callable[[_core.Bundle], bool]", is_of_sizes: bool
) -> Optional["_core.Bundle"]:
    """From ``FLASHCORE_KERNELS``, for the chip or the newest before it that has
    code for others and whose kernels the device has room for."""
    folder = os.environ.get("FLASHCORE_KERNELS")
    if not folder:
        return None
    number = chip_number(kernel.chip)
    older = [chip for chip in _core.chips() if is_portable(chip) and chip_number(chip) <= number]
    for chip in dict.fromkeys([kernel.chip, *reversed(older)]):
        # One for calls of other sizes is slower, but needs no compiler.
        others = [without_sizes(kernel.schedule)] if is_of_sizes else []
        for schedule in dict.fromkeys([kernel.schedule, *others]):
            found = Kernel(kernel.words, chip, schedule)
            bundle = _load(Path(folder) / _portable_key(found), found)
            if bundle is not None and runs(bundle):
                return bundle
    return None


def is_portable(chip: str) -> bool:
    """Whether newer chips run its code, too: what is made for sm_90a runs on no
    other."""
    return chip[-1].isdigit()


def chip_number(chip: str) -> int:
    """89 for sm_89. (flashcore.bundle has it too: importing that here would make the
    first call of a process wait for it.)"""
    return int("".join(filter(str.isdigit, chip)))


def _load(place: Path, kernel: Kernel) -> Optional["_core.Bundle"]:
    """The bundle of an entry that is whole and for this kernel, else None."""
    record = _read_record(place)
    if record is None or {**record, **kernel.record()} != record:
        return None
    try:
        bundle = _core.load_bundle(place / _BUNDLE)
    except Error:  # damaged, or deleted by another process
        return None
    # The manifest has the checksums of the other files; this is its own.
    return bundle if record["manifest"] == _digest(bundle.manifest) else None


def _read_record(place: Path) -> Optional[Dict[str, Any]]:
    try:
        record = json.loads((place / _RECORD).read_text())
        if isinstance(record["manifest"], str) and isinstance(record["words"], str):
            return dict(record)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _entries(folder: Path) -> Iterator[Entry]:
    try:
        places = [entry for entry in os.scandir(folder) if _is_key(entry.name)]
    except OSError:
        return
    for place in places:
        here = Path(place.path)
        record = _read_record(here) or {}
        size, used = 0, 0.0
        for file in [here / _RECORD, *(here / _BUNDLE).glob("*")]:
            try:
                info = file.stat()
            except OSError:
                continue
            size += info.st_size
            used = max(used, info.st_mtime)
        schedule = tuple((str(k), str(v)) for k, v in record.get("schedule", []))
        yield Entry(
            str(record.get("words", "damaged")),
            str(record.get("chip", "")),
            schedule,
            size,
            used,
            here,
        )


def _is_key(name: str) -> bool:
    return len(name) == 64 and all(c in "0123456789abcdef" for c in name)


def _touch(place: Path) -> None:
    try:
        os.utime(place / _RECORD)
    except OSError:  # deleted meanwhile, or a read-only folder
        pass


# Trust ----------------------------------------------------------------------


def _is_trusted(owner: int) -> bool:
    return owner in (0, os.geteuid())


def why_unusable(folder: Path) -> Optional[str]:
    """Why kernels are not kept there; None where they are.

    The folder is made where it is missing. Only this user may change it.
    """
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for place in (folder.parent, folder):
            if not _is_safe(place.stat()):
                return f"other users may write to {place}, or own it"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return None


def _is_safe(info: os.stat_result) -> bool:
    others = info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX
    return _is_trusted(info.st_uid) and not others


#: Who may not write to what is loaded.
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _is_ours(place: Path) -> bool:
    """Whether an entry is this user's: its folder, and all in it, which has no links.

    A folder that others may not write to now may have been one that they could, or have
    been moved here with files that are theirs.
    """
    try:
        if not stat.S_ISDIR(place.lstat().st_mode):
            return False
        return all(_is_of_this_user(path) for path in _tree(place))
    except OSError:
        return False


def _is_of_this_user(path: str) -> bool:
    info = os.lstat(path)
    is_plain = stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)
    return is_plain and _is_trusted(info.st_uid) and not info.st_mode & _OTHERS


def _tree(place: Path) -> Iterator[str]:
    """A folder and all that is in it; links are not followed. Raises OSError."""
    yield str(place)
    for entry in os.scandir(place):
        if entry.is_dir(follow_symlinks=False):
            yield from _tree(Path(entry.path))
        else:
            yield entry.path


# Writing --------------------------------------------------------------------


# Modules that only these need are imported there: a cached kernel is found in a
# moment.


def _make_new(folder: Path) -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))


def _delete(place: Union[str, Path]) -> None:
    import shutil

    shutil.rmtree(place, ignore_errors=True)


def _make_unkept(kernel: Kernel, write: Callable[[Path], None]) -> "_core.Bundle":
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="flashcore-")
    _unkept.append(folder)
    write(Path(folder.name, _BUNDLE))
    return _core.load_bundle(Path(folder.name, _BUNDLE))


#: Bundles of this process alone. A KernelFault names their PTX, so they go with the process.
_unkept: List[Any] = []


def _make(
    folder: Path, place: Path, kernel: Kernel, write: Callable[[Path], None]
) -> "_core.Bundle":
    """Makes an entry beside its place, and moves it there."""
    new = _make_new(folder)
    try:
        write(new / _BUNDLE)
        bundle = _core.load_bundle(new / _BUNDLE)
        record = {
            **kernel.record(),
            "compiler": _core.version(),
            "manifest": _digest(bundle.manifest),
        }
        (new / _RECORD).write_text(json.dumps(record, indent=1))
        for path in _tree(new):  # whatever the umask says
            os.chmod(path, stat.S_IMODE(os.lstat(path).st_mode) & ~_OTHERS)
        _publish(new, place, kernel)
        # Read where it lies now: a KernelFault names the file of its PTX.
        return _load(place, kernel) or bundle
    finally:
        _delete(new)


def _publish(new: Path, place: Path, kernel: Kernel) -> None:
    for _ in range(2):
        try:
            os.rename(new, place)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        # Another process was faster, or what lies there is damaged.
        if _is_ours(place) and _load(place, kernel) is not None:
            return
        _discard(place)


def _discard(place: Path) -> None:
    """Moves a bad entry away first: readers see all of it or nothing."""
    trash = _make_new(place.parent)
    try:
        os.rename(place, trash / "bad")
    except OSError:  # another process did
        pass
    _delete(trash)


def _sweep(folder: Path) -> None:
    """Deletes what processes that died left half made."""
    try:
        for left in os.scandir(folder):
            old = time.time() - left.stat(follow_symlinks=False).st_mtime
            if left.name.startswith(_NEW) and old > _ABANDONED:
                _delete(left.path)
    except OSError:
        pass
