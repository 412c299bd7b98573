"""FlashCore as its users call it: `flashcore.attention` on PyTorch's tensors.

A bundle that is timed beside these is one kernel; a call chooses its kernel, as
it does for everybody.
"""

from .package import import_package


class PackageCall:
    """A call on every input set of a problem."""

    def __init__(self, inputs, is_static):
        problem = inputs.problem
        mask = "top_left" if problem.is_top_left else "bottom_right"
        self._attention = import_package().attention
        self._set = inputs.set
        self._options = {
            "causal": mask if problem.causal else False,
            "window": problem.window if problem.has_window else None,
            "softcap": problem.softcap,
            "scale": problem.scale,
            "bias": inputs.bias,
            "static": is_static,
        }

    def __call__(self, i):
        return self._attention(*self._set(i), **self._options)

    @staticmethod
    def facts():
        """Which chip its kernels are compiled for."""
        from flashcore import kernels

        return {"chip": kernels.chip_for(kernels.device("cuda"))}


CALLS = {
    "flashcore": lambda inputs: PackageCall(inputs, False),
    "flashcore:static": lambda inputs: PackageCall(inputs, True),
}
