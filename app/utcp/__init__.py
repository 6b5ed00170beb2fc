"""The UTCP wire language, pure: manuals, call templates, auth, variables, and arguments -> requests."""
