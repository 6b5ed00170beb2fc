"""An API to try the gateway on: a library, whose operations between them use every kind of auth."""
