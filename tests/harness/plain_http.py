"""What an HTTP client takes that never uses TLS: the default context loads all root certificates, 50 ms of CPU each."""

import ssl

WITHOUT_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `httpx2.Client(verify=...)` to servers on loopback; it trusts no certificate, so that https:// fails."""
