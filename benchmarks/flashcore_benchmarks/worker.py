"""A device in a process of its own.

A kernel that fails on the GPU takes the context with it, and some peers end
their whole process. So the device lives in a worker, which lasts as long as it
can, because starting one takes seconds. The worker says whose work it begins;
when it is lost, that contender is to blame: another worker tries it alone, and
the problem is timed again without it.
"""

import contextlib
import multiprocessing
import os
import signal
import traceback

from . import results
from .errors import NEEDS_TORCH, ContextLost, UserError, first_line
from .timing import Timing, time_problem

# Of any one step; FlexAttention compiles for many seconds where cores are slow.
PATIENCE_SECONDS = 60
# PyTorch from a cold disk.
START_SECONDS = 300


class Lost(UserError):
    """A worker that is gone; `contender` was at work, or None."""

    def __init__(self, contender, cause):
        self.contender = contender
        self.reason = f"ended its process: {cause}"
        super().__init__(f"{contender or 'the device'} {self.reason}")


class WorkerDevice:
    """The device that `factory` makes, in worker processes. `factory` is a
    function of a module that the worker can import."""

    def __init__(
        self, factory, patience=PATIENCE_SECONDS, on_loss=lambda text: None
    ):
        self._factory, self._patience = factory, patience
        self._on_loss = on_loss
        self._process = self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()

    def describe(self):
        """{"chip", "gpu_id", "card"}."""
        return self._call("describe")

    def peaks(self):
        return self._call("peaks")

    def prepare(self, request):
        """Makes the contenders of a request ready, in the place of those before.
        Returns the reasons of those that are not, by name, wrong results among
        them."""
        return self._call("prepare", request)

    def measure(self, contender):
        """Microseconds of one sample of a contender that is ready."""
        return self._call("measure", contender)

    def time(self, request):
        """A Timing. Contenders that end the worker are in its `lost`."""
        lost = {}
        while True:
            try:
                timing = self._call("time", request)
                break
            except Lost as loss:
                self._on_loss(f"{request.problem.name}: {loss}")
                if loss.contender is None:
                    lost |= dict.fromkeys(request.contenders, loss.reason)
                    timing = Timing()
                    break
                alone = self._try_alone(request, loss.contender)
                lost[loss.contender] = f"{loss.reason} ({alone})"
                request = request.without(loss.contender)
        timing.refused |= lost
        timing.lost = sorted(lost)
        return timing

    def _try_alone(self, request, contender):
        """Where it fails only beside others, one of them may have harmed
        it."""
        try:
            self._call("time", request.only(contender))
            return "not when alone"
        except Lost:
            return "also when alone"

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        # No daemon: FlexAttention's compiler has child processes.
        self._process = context.Process(
            target=_serve, args=(theirs, self._factory)
        )
        self._process.start()
        theirs.close()
        try:
            self._answer(START_SECONDS)
        except Lost as loss:
            raise UserError(f"the GPU cannot be opened: {loss.reason}")

    def _call(self, method, *arguments):
        if self._process is None or not self._process.is_alive():
            self._stop()
            self._start()
        self._connection.send((method, arguments))
        return self._answer(self._patience)

    def _answer(self, patience):
        contender = None
        while True:
            kind, value = self._receive(patience)
            if kind == "result":
                return value
            if kind == "refused":
                raise UserError(value)
            if kind == "lost":
                self._stop()
                raise Lost(contender, value)
            contender = value

    def _receive(self, patience):
        if not self._connection.poll(patience):
            return "lost", f"no answer for {patience:.0f} s"
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            return "lost", _obituary(self._process.exitcode)

    def _stop(self):
        if self._process:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = self._connection = None


def _obituary(exit_code):
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


class _Held:
    """Contenders that stay ready from one message to the next."""

    def __init__(self, device, announce):
        self._device, self._announce = device, announce
        self._stack, self._ready = contextlib.ExitStack(), {}

    def prepare(self, request):
        self._ready = {}
        self._stack.close()
        self._ready, refused = self._stack.enter_context(
            self._device.prepare(
                request.problem,
                request.bundles,
                request.peers,
                request.seed,
                self._announce,
            )
        )
        return refused | {
            name: results.describe_wrong(facts["error"])
            for name, (_, facts) in self._ready.items()
            if not results.passes(facts["error"])
        }

    def measure(self, contender):
        return self._ready[contender][0]()


def _serve(connection, factory):
    """The worker: answers until the other side is gone or the context is."""
    # Ctrl-C reaches this process too; its parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        device = factory()
    except UserError as error:
        return connection.send(("refused", str(error)))
    except ModuleNotFoundError as error:
        return connection.send(("refused", f"{error}; {NEEDS_TORCH}"))
    connection.send(("result", None))
    held = _Held(device, lambda name: connection.send(("begins", name)))
    methods = {
        "prepare": held.prepare,
        "measure": held.measure,
        "describe": lambda: {
            "chip": device.chip,
            "gpu_id": device.gpu_id,
            "card": device.card(),
        },
        "peaks": device.peaks,
        "time": lambda request: time_problem(
            device, request, lambda name: connection.send(("begins", name))
        ),
    }
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = "result", methods[method](*arguments)
        except ContextLost as error:
            answer = "lost", str(error)
        except UserError as error:
            answer = "refused", str(error)
        except Exception as error:
            # Whatever state a contender left behind is not to be timed in.
            traceback.print_exc()
            answer = "lost", f"{type(error).__name__}: {first_line(error)}"
        connection.send(answer)
        if answer[0] == "lost":
            # Destructors would use the context.
            os._exit(1)
