"""Search by meaning: vectors of tools, encoded in the background, and of queries (the extra `semantic`).

A process beside the workers (`encoding_process.py`) loads the model, encodes the texts of all tools, stores
the vectors in PostgreSQL and writes them to one file of the data directory, which all workers map into
memory. A worker encodes queries only. Without a model, all of it is off.
"""

from app.search.vectors.model_source import ModelError
from app.search.vectors.service import SearchVectors
from app.search.vectors.status import VectorState, VectorStatus

__all__ = ["ModelError", "SearchVectors", "VectorState", "VectorStatus"]
