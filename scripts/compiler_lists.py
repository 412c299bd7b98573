"""What the compiler lists of itself: the chips, operands, schedules and their fields that scripts go through."""
import os
import subprocess


def list_rows(compiler, option):
    """The words of each line that ``option`` prints. `compiler` is a path, or the words of a command."""
    command = [compiler] if isinstance(compiler, (str, os.PathLike)) else list(compiler)
    result = subprocess.run([*command, option], text=True, capture_output=True, stdin=subprocess.DEVNULL)
    rows = [line.split() for line in result.stdout.splitlines()]
    if result.returncode or not rows:
        raise ValueError(f"expects a list from {' '.join(map(str, command))} {option}, but got '{result.stderr.strip()}'")
    return rows


def list_chips(compiler):
    """All chips that kernels are made for, oldest first: sm_70, ..., sm_90, sm_90a, ..."""
    return [chip for chip, *_ in list_rows(compiler, "--list-chips")]


def shared_memory_limits(compiler):
    """Of each chip, the bytes of shared memory that a block may have."""
    return {chip: 1024 * int(kibibytes) for chip, _, _, kibibytes, *_ in list_rows(compiler, "--list-chips")}


def list_clauses(compiler):
    """The words of the clauses with operands that an attention may have, in the op's order: ins, bias, ..."""
    return list(dict.fromkeys(clause for clause, *_ in list_rows(compiler, "--list-operands")))


def list_schedule_fields(compiler):
    """Of each field of a schedule, by its name in IR, the words it may be; () of a number. In the order of the IR."""
    rows = list_rows(compiler, "--list-schedule-fields")
    return {name: () if values == "number" else tuple(values.split("|")) for name, _, values, *_ in rows}


def list_schedules(compiler):
    """(name, chip) of the schedules that have a name; the chip is "any" for those of all."""
    return [(name, chip) for name, chip, *_ in list_rows(compiler, "--list-schedules")]
