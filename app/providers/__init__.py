"""What is stored about an API: its registration, its credentials, and the plugins that are ready to use."""
