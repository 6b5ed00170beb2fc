"""What people do with the stored tools of providers: list, change and delete them, one or many at once."""
