"""What the gateway keeps of its promises while its parts fail: `python -m tests.faults` prints the table."""
