"""Real parts for tests: servers, the gateway as its own process, upstreams."""
