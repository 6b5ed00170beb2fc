"""All definitions, providers and toolsets, as one document without secrets: its export and its import."""
