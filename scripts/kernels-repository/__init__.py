"""FlashCore as the ``kernels`` library loads it: the functions of flash-attn 2, and its own.

The package beside this file is imported as ``flashcore``, unless one was imported before.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "package"))
try:
    import flashcore
    import flashcore.flash_attn
    import flashcore.flash_attn_interface
finally:
    del sys.path[0]

attention = flashcore.attention
merge = flashcore.merge
flash_attn_func = flashcore.flash_attn.flash_attn_func
flash_attn_varlen_func = flashcore.flash_attn.flash_attn_varlen_func
flash_attn_with_kvcache = flashcore.flash_attn.flash_attn_with_kvcache

__all__ = [
    "attention", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flashcore", "merge",
]  # fmt: skip
