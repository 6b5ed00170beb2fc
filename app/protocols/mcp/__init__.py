"""Servers of the Model Context Protocol: their tools and resources as tools; needs the extra `mcp`."""
