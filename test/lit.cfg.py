# How lit runs FlashCore's tests.
import os
import shutil
import subprocess
import sys

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "FlashCore"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.flashcore_obj_root, "test")

llvm_config.with_system_environment(["HOME", "TMP", "TEMP", "CUDA_HOME", "ASAN_OPTIONS", "UBSAN_OPTIONS"])
llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.add_tool_substitutions(
    ["flashcore-opt", "flashcore-compile", "flashcore-run", "flashcore-emu"],
    [config.flashcore_tools_dir, config.llvm_tools_dir],
)
config.substitutions.append(("%{tools}", config.flashcore_tools_dir))
config.substitutions.append(("%scripts", os.path.join(config.flashcore_source_root, "scripts")))
# Sanitized tools take their time.
config.substitutions.append(("%check-docs", f'"{sys.executable}" {config.flashcore_source_root}/scripts/check-docs.py '
                             f"--bin={config.flashcore_tools_dir} --llvm={config.llvm_tools_dir} "
                             f"--limit={600 if config.flashcore_sanitize else 30}"))
config.substitutions.append(("%{llvm}", config.llvm_tools_dir))
config.substitutions.append(("%examples", os.path.join(config.flashcore_source_root, "docs/examples")))

# What one commit in two or four tests, by its hash: scripts/test.sh gives the turn,
# without which all is tested (docs/Testing.md).
turn = os.environ.get("FLASHCORE_TEST_TURN", "all")
half, quarter = ("0/1", "0/1") if turn == "all" else (f"{int(turn) % 2}/2", f"{int(turn) // 2}/4")
# With sanitizers the grid takes an hour, and its kernels run the same code of ours.
if config.flashcore_sanitize and turn == "all":
    half = quarter = "0/8"
    lit_config.note("a sanitized build: an eighth of the emulator's grid is tested")
config.substitutions += [("%{half}", half), ("%{quarter}", quarter)]
if quarter.startswith("0/"):
    config.available_features.add("fourth-commit")
else:
    lit_config.note(f"turn {turn} of the commit: tests of every fourth commit are skipped")

# mlir-opt with FlashCore. A sanitized plugin needs a sanitized mlir-opt.
plugin = config.flashcore_plugin
config.substitutions.append(("%{plugin}", f"--load-dialect-plugin={plugin} --load-pass-plugin={plugin}"))
config.substitutions.append(("%pluginlib", plugin))
# What mlir-runner needs to run host code that launches kernels.
runner_libs = [config.flashcore_emulated_gpu, os.path.join(config.llvm_tools_dir, "../lib/libmlir_c_runner_utils.so")]
config.substitutions.append(("%{gpu-on-emulator}", "--shared-libs=" + ",".join(runner_libs)))
config.available_features.add("sanitized" if config.flashcore_sanitize else "plugin")

# The executable with all tools. Where it may, a test takes it to a root directory
# that holds nothing but it and libc.
if config.flashcore_static_llvm:
    config.available_features.add("static-llvm")
    llvm_config.add_tool_substitutions([ToolSubst("%flashcore", os.path.join(config.flashcore_tools_dir, "flashcore"))])
    config.substitutions.append(("%libflashcore", config.flashcore_library))
    # That of an older system, if this build is for such; else nothing.
    config.substitutions.append(("%libc", config.flashcore_libc))
    if config.flashcore_libc:
        config.available_features.add("old-libc")
    try:
        subprocess.run(["unshare", "-r", "chroot", "/", "true"], check=True, capture_output=True)
        config.available_features.add("chroot")
    except (OSError, subprocess.CalledProcessError):
        lit_config.note("unshare and chroot are not permitted: the test that runs flashcore in an empty root is skipped")

# Tests that assemble need ptxas: from CUDA_HOME, PATH or the build tree.
wheel = os.path.join(config.flashcore_tools_dir, "..", "ptxas", "bin")
home = os.path.join(os.environ.get("CUDA_HOME") or "/nonexistent", "bin")
ptxas = shutil.which("ptxas", path=os.pathsep.join([home, os.environ.get("PATH", ""), wheel]))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
else:
    lit_config.note("ptxas not found: tests that assemble are skipped")
# What passes say of their decisions, which builds with assertions have.
if config.flashcore_has_debug_output:
    config.available_features.add("debug-output")
clang_tidy = shutil.which("clang-tidy", path=config.llvm_tools_dir)
if clang_tidy:
    config.available_features.add("clang-tidy")
    config.substitutions.append(("%clang-tidy", clang_tidy))
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("gpu")
