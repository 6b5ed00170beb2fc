#!/usr/bin/env bash
# Writes the locked lists; run it by `make lock`. The first argument is the `uv` to use.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1
compile() {
    target=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-header --no-annotate "$@" -o "requirements/$target"
}
compile dev.txt --extra embedded --extra otlp --extra protocols --extra semantic --extra dev --no-emit-package utcp-gateway \
    pyproject.toml packages/webrtc/pyproject.toml packages/semantic/pyproject.toml requirements/build.in requirements/dev.in
# The smaller lists hold the same versions, so that what is tested is what runs.
compile run.txt --extra embedded --extra otlp --extra protocols -c requirements/dev.txt pyproject.toml requirements/build.in
# The image needs neither the embedded servers nor, once it is built, the build tools; nothing can be added to it, so it
# holds what sends traces and what speaks every protocol of the gateway itself.
compile server.txt --extra otlp --extra protocols -c requirements/dev.txt pyproject.toml
# What search by meaning needs besides, of a few MB to 30 MB each; the model is a list of its own, without its dependencies.
compile semantic.txt --extra semantic -c requirements/dev.txt pyproject.toml
# What builds the model, in an environment of its own (.venvs/semantic-build).
compile semantic-build.txt -c requirements/dev.txt packages/semantic/pyproject.toml requirements/build.in
# The protocol webrtc is a package of its own, whose libraries are larger than all others; its gateway is this checkout.
compile webrtc.txt --no-emit-package utcp-gateway -c requirements/dev.txt packages/webrtc/pyproject.toml
compile build.txt -c requirements/dev.txt requirements/build.in
# The client library has an environment of its own, with all its extras: .venvs/client-python.
# With the extras of what it names: with hashes, pip takes `google-auth[requests]` of a dependency for another requirement than a
# locked `google-auth`, and fails once there is a newer version.
compile ../packages/python/requirements.txt --no-strip-extras --extra all --extra test -c requirements/dev.txt packages/python/pyproject.toml requirements/build.in
