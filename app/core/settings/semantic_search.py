"""Settings of search by meaning (the extra `semantic`)."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class SemanticSearchSettings(BaseSettings, defer_build=True):
    """Settings of search by meaning. Times are in seconds, sizes in bytes."""

    # Search by meaning
    semantic_search: bool = Field(
        default=True, description="Whether searches rank by meaning, too, where a model is installed."
    )
    semantic_model_dir: Path | None = Field(
        None,
        description="Folder of another model: model.onnx, tokenizer.json, its licence, and their SHA256SUMS.",
    )
    semantic_query_timeout: float = Field(
        0.03, gt=0, le=5, description="How long a search waits for its query to be encoded."
    )
    semantic_memory_bytes: int = Field(
        2 << 30, ge=512 << 20, description="Memory limit of the process that encodes tools, one per gateway."
    )
