"""The call log: one record per tool call, its modes of durability, retention and queries."""
