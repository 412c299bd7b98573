"""The schedules that have a name: the steps from one thread a query row to the
defaults, as flashcore-compile --list-schedules has them."""

from .errors import UserError

PROBLEMS = ("b1 h8 s512 d64", "b4 h16 s2048 d64", "b4 h16 s2048 d128")
# Of whose kernels docs/Ladder.md says what they use and what ncu counts of them.
DESCRIBED = PROBLEMS[1]
PEERS = ("fa2", "cudnn")
# What is timed anyway, as flashcore.
DEFAULT = "default"


def schedules(toolchain):
    """[(name, chip or "any", text)], in the order of the steps."""
    result = toolchain.run("compile", ["--list-schedules"])
    if result.returncode:
        raise UserError(f"--ladder: {result.stderr.strip()}")
    return [tuple(line.split(None, 2)) for line in result.stdout.splitlines()]


def contender(name):
    """What a schedule is called in results."""
    if name == DEFAULT:
        return "flashcore"
    return f"flashcore:{name.lstrip('+')}"


def variants(toolchain):
    """As --variant says them."""
    return [
        contender(name).split(":")[1]
        + f"=--schedule={name}"
        + ("" if chip == "any" else f" --chip={chip}")
        for name, chip, _ in schedules(toolchain)
        if name != DEFAULT
    ]
