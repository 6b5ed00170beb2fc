"""A protocol that a package adds to the gateway: a line of JSON is sent, and one comes back."""
