"""HTTP/2 as a client (RFC 9113), for upstreams that are asked for it or speak nothing else."""
