"""What a user can repair, told apart from our bugs."""


NEEDS_TORCH = "run needs PyTorch: https://pytorch.org/get-started/locally"


class UserError(Exception):
    """A wrong argument, file or machine. The tools print the text alone and
    exit with 2."""


class ContextLost(UserError):
    """A kernel failed on the device and took the GPU's context with it:
    nothing more can be timed in this process."""


def first_line(error):
    """PyTorch's errors go on with pages of advice."""
    return next(iter(str(error).splitlines()), "")
