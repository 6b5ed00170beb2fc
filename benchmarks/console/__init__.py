"""What the web console costs: the gateway's CPU and memory, calls beside it, and the browser."""
