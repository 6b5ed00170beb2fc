"""ToolClad manifests (`*.clad.toml`): one tool each, with typed arguments, a backend, and how output is read.

A manifest becomes a tool of a UTCP manual, whose call template has the manifest's `Contract`. Nothing here
knows a protocol's adapter, the database or a web framework.
"""
