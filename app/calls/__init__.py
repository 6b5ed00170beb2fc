"""The execution of a call: pipeline, retries, rate limits, idempotency, response cache, record."""
