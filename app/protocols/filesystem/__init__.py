"""`filesystem`, a protocol of our own: files below one folder of the gateway's machine."""
