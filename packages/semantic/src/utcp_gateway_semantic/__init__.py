"""Builds the model with which utcp-gateway searches by meaning; the gateway loads what this writes."""

from utcp_gateway_semantic.model_build import MODEL_NAME, BuildError, build_model

__all__ = ["MODEL_NAME", "BuildError", "build_model"]
