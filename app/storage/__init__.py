"""PostgreSQL, Redis, and the tables."""
