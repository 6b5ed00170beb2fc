"""`postgres`, a protocol of our own: queries of a PostgreSQL database, in read-only transactions."""
