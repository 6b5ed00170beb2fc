"""The audit: one record per call of a tool, and one event per change on the control plane."""
