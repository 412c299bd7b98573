"""FlashCore's executables, and what to compile with them."""

import functools
import gzip
import pathlib
import shutil
import stat
import subprocess
import tempfile

from .errors import UserError
from .mlir import attention, source_arguments

# In the Python package this folder lies beside the executable with all tools.
_PACKAGE = pathlib.Path(__file__).absolute().parents[1]
IS_INSTALLED = (_PACKAGE / "bin/flashcore").exists()
ROOT = _PACKAGE.parent
DEFAULT_TOOLS = (
    _PACKAGE / "bin/flashcore" if IS_INSTALLED else ROOT / "build/release/bin"
)
# Folders of results, made where the package's user stands.
OUT = pathlib.Path("flashcore-results") if IS_INSTALLED else ROOT / "build"


def version():
    """Of the package, or of the tree."""
    if IS_INSTALLED:
        import flashcore

        return flashcore.__version__
    return (ROOT / "VERSION").read_text().strip()


class Refused(Exception):
    """The compiler said no; the text is its error."""


class Toolchain:
    """`path` is the folder of flashcore-compile and its siblings, the
    executable that holds them all, or that one packed with gzip, which is
    unpacked into `work_dir`."""

    def __init__(self, path, work_dir):
        path = pathlib.Path(path).absolute()
        if not path.exists():
            raise UserError(
                f"no FlashCore tools at '{path}': build them, or name their "
                "folder or the 'flashcore' executable with --tools"
            )
        if path.suffix == ".gz":
            path = _unpack(path, pathlib.Path(work_dir))
        self._path = path

    def command(self, tool):
        """The start of a command line: `tool` is compile, run or emu."""
        if not self._path.is_dir():
            return [str(self._path), tool]
        single = self._path / f"flashcore-{tool}"
        if single.exists():
            return [str(single)]
        if (self._path / "flashcore").exists():
            return [str(self._path / "flashcore"), tool]
        raise UserError(
            f"no flashcore-{tool} and no flashcore in '{self._path}'"
        )

    def run(self, tool, arguments, **options):
        command = [*self.command(tool), *map(str, arguments)]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, **options
            )
        except OSError as error:
            raise UserError(f"cannot run '{command[0]}': {error.strerror}")
        except subprocess.TimeoutExpired as error:
            raise UserError(
                f"'{command[0]}' gave no answer for {error.timeout:.0f} s"
            )

    def chips(self):
        """Those that kernels are made for, oldest first."""
        result = self.run("compile", ["--list-chips"])
        if result.returncode:
            raise UserError(f"--list-chips: {result.stderr.strip()}")
        return [line.split()[0] for line in result.stdout.splitlines()]

    @functools.cached_property
    def has_ptxas(self):
        """Whether the compiler finds it; it looks in more places than PATH."""
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--emit=cubin", "-o", f"{folder}/probe.cubin"]
            result = self.run_compiler(attention("f16", 16), arguments)
        return "cannot find ptxas" not in result.stderr

    def run_compiler(self, source, arguments):
        """Of words of --shape, or a module."""
        named, text = source_arguments(source)
        return self.run("compile", [*named, *arguments], input=text)

    def compile(self, source, bundle, options=()):
        """Writes a bundle and returns what the compiler said; raises Refused
        with the compiler's error."""
        arguments = ["--emit=bundle", "-o", bundle, *options]
        result = self.run_compiler(source, arguments)
        if result.returncode:
            raise Refused(
                result.stderr.strip() or f"exit code {result.returncode}"
            )
        return result.stderr


def _unpack(archive, work_dir):
    work_dir.mkdir(parents=True, exist_ok=True)
    target = work_dir / "flashcore"
    with gzip.open(archive) as packed, target.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    target.chmod(target.stat().st_mode | stat.S_IXUSR)
    return target
