"""Descriptions of HTTP APIs that are not OpenAPI: Postman collections and Google Discovery documents.

Each is translated to an OpenAPI document first, so that all later stages, the report and the tools are the
same. Other kinds of documents are recognised in order to name them in the error.
"""
