"""Writes the assembly of the one gpu.binary of a module on standard input, as
mlir-opt prints it, to standard output.

usage: binary-to-ptx.py < binary.mlir > kernel.ptx
"""
import re
import sys

assemblies = re.findall(r'assembly = "((?:[^"\\]|\\.)*)"', sys.stdin.read())
if len(assemblies) != 1:
    sys.exit(f"expects one gpu.object with assembly, but got {len(assemblies)}")
# MLIR escapes bytes as two hexadecimal digits, and quotes and backslashes.
sys.stdout.write(
    re.sub(
        r"\\(?:([0-9A-F]{2})|(.))",
        lambda m: chr(int(m[1], 16)) if m[1] else m[2],
        assemblies[0],
    ).rstrip("\0")
)
