"""Tools of executors: programs that connect to the gateway by the Universal Bot Protocol (UBP)."""
