"""The arguments of a call: parsed, preset by a toolset, repaired, masked and shown."""
