"""UTCP's `graphql`."""

from app.protocols.graphql.adapter import GraphqlAdapter

__all__ = ["GraphqlAdapter"]
