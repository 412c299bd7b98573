"""The names of the attentions that FlashCore is timed beside, and what tables
call them. torch_peers.py computes them."""

PEERS = {
    "fa2": "SDPA flash",
    "cudnn": "SDPA cuDNN",
    "efficient": "SDPA efficient",
    "math": "SDPA math",
    "flash-attn": "flash-attn",
    "flash-attn-3": "flash-attn 3",
    "flex": "FlexAttention",
}
# FlashCore as its users call it; torch_package.py computes them.
CALLS = {
    "flashcore": "FlashCore",
    "flashcore:static": "FlashCore static",
}
