"""`/keys` and `/events`: API keys, and the events of the control plane."""
