"""Where the README's figures come from: `python -m benchmarks` prints them as tables."""
