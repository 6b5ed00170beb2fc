"""The converter measured on every public API: metrics M1 to M18 over the corpus, by an independent reading.

Nothing here imports the converter's stages: documents are parsed again, literally, and compared with the
result of `app.openapi.conversion.convert`.
"""
