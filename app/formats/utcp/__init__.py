"""The wire format of UTCP, without I/O: manuals, call templates, auth, variables, names and URLs."""
