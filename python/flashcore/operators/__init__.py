"""What ``flashcore.attention`` needs of PyTorch itself.

These are operators that tracers of PyTorch see (:mod:`.custom`), what becomes of calls that need
gradients (:mod:`.gradients`), and attention by PyTorch's own operators (:mod:`.fallback`).
:mod:`flashcore.torch`, which users import, stands on them and on ``flashcore.attention``.
"""
