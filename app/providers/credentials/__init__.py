"""Credentials of providers: slots, permissions, sealing of credentials and of secrets in call templates."""
