"""Where the tools of LLVM are, as llvm.sh says."""
import pathlib
import subprocess

_SCRIPT = pathlib.Path(__file__).resolve().with_suffix(".sh")
BIN = pathlib.Path(subprocess.run(["bash", "-c", f'. "{_SCRIPT}"; printf %s "$llvm/bin"'], check=True, capture_output=True, text=True).stdout)
