"""The converter judged on every public API: metrics M1 to M18 over the corpus, by a reading of its own.

Nothing here imports the converter's stages: documents are read again, literally, and compared with what
`app.openapi.convert` gave.
"""
