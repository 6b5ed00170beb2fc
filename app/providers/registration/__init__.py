"""A source -> stored tools: parse, fetch, convert, compare, plan, persist."""
