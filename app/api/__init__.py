"""The HTTP resources that people and programs manage, one package each, and what all edges share."""
