"""What ``flashcore.attention`` needs of PyTorch itself.

These are operators that tracers of PyTorch see (:mod:`.custom`), what becomes of calls that need
gradients (:mod:`.gradients`), PyTorch's backward pass on what kernels leave (:mod:`.training`), and
attention by PyTorch's own operators (:mod:`.fallback`), with clauses and functions by the formula
(:mod:`.formula`).
:mod:`flashcore.torch`, which users import, stands on them and on ``flashcore.attention``.
"""
