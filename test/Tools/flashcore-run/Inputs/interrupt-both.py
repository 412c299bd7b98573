"""interrupt-both.py FLASHCORE_RUN COMPILER: Ctrl-C, many times.

COMPILER is called in place of flashcore-compile and sends SIGINT to its process
group, as a terminal does. It is often the first to end, but the exit of
flashcore-run must name the signal, or a loop of a shell would go on.
"""

import signal
import subprocess
import sys

tool, compiler = sys.argv[1:]
for _ in range(100):
    process = subprocess.run(
        [tool, "a.mlir", f"--compiler={compiler}"],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,
    )
    assert process.returncode == -signal.SIGINT, f"expects {-signal.SIGINT}, but got {process.returncode}"
