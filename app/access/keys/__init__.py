"""What people do with API keys: create, list, change, rotate and revoke them; and what they are warned of."""
