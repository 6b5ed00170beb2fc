"""The conversion in a process of its own: its client in the gateway, the server that forks, and the child."""
