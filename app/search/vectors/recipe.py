"""How models are used, as one text: a change of it makes gateways build their graph and encode all texts
anew.
"""

from typing import Final

MAX_TOKENS: Final = 64
"""Tokens of a text, the special ones included; what follows is not encoded."""
RECIPE: Final = f"bert-int8-1 tokens-{MAX_TOKENS} mean"
"""The version of the graph (`onnx_graph.py`), the limit of tokens, and how states are pooled."""
