"""The benchmarks behind the README's figures: `python -m benchmarks` prints them as tables."""
