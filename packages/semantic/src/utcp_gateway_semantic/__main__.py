"""`python -m utcp_gateway_semantic FOLDER` writes the model of the installed weights into a folder."""

import sys
from pathlib import Path

from utcp_gateway_semantic.model_build import BuildError, build_model


def main(arguments: list[str]) -> int:
    """Build the model; return 2 for wrong arguments, and 1 where the weights cannot be used."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m utcp_gateway_semantic FOLDER\n")
        return 2
    try:
        build_model(Path(arguments[0]))
    except (BuildError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
