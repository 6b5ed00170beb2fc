#!/usr/bin/env bash
# Makes a virtual environment from the newest Python that will do, or says what is missing.
set -euo pipefail
target=$1
found=
others=
for name in python3.14 python3.13 python3.12 python3.11 python3; do
    # Asked, not only looked up: version switchers leave commands that do nothing but complain.
    if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; then
        found=$name
        break
    fi
    if version=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
        others="$others $name is $version."
    fi
done
if [ -z "$found" ]; then
    echo "Python 3.11, 3.12, 3.13 or 3.14 is needed and was not found (tried python3.14 to python3.11, and python3).$others" >&2
    echo "The locked packages have no wheels for other versions (docs/operations.md, Platforms)." >&2
    echo "On Debian or Ubuntu: apt-get install python3 python3-venv" >&2
    echo "On macOS: brew install python@3.14" >&2
    exit 1
fi
version=$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$found" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    echo "$found ($version) cannot make virtual environments: its modules venv and ensurepip are missing." >&2
    echo "On Debian or Ubuntu: apt-get install python$version-venv" >&2
    exit 1
fi
echo "Making $target with $found ($version)"
# pyvenv.cfg is what make looks for, and venv writes it first: an interrupted try must not look finished.
trap 'rm -f "$target/pyvenv.cfg"' ERR INT TERM
"$found" -m venv --clear "$target"
