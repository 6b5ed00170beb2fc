"""The scripted models of the client library's tests (`packages/python/tests/model_peers.py`), for other tests."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

_PATH = Path(__file__).parents[2] / "packages" / "python" / "tests" / "model_peers.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("model_peers", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


peers = _load()
Turn = peers.Turn
ModelServer = peers.ModelServer
