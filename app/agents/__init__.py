"""What agents speak: calls, MCP, UTCP manuals, tool calls of models, UBP, and tests of agents."""
