"""The peer of each protocol: a real server in the process of the test that records what it receives and replies as told."""
