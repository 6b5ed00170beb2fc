"""HTTP/1.1 as a client (RFC 9112): connections on llhttp's parser, their pool, and how they are opened."""
