"""UTCP's `cli`: programs on the gateway's own machine that its operator lists, without a shell."""
