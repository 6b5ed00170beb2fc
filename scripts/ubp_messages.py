"""Write the modules of UBP's messages from `app/formats/ubp/proto`, for the gateway and for its client
library.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).parents[1]
PROTO: Final = ROOT / "app" / "formats" / "ubp" / "proto"
PACKAGES: Final = {
    "app.formats.ubp.v1": ROOT / "app" / "formats" / "ubp" / "v1",
    "utcp_gateway_client.serving.ubp_v1": (
        ROOT / "packages" / "python" / "src" / "utcp_gateway_client" / "serving" / "ubp_v1"
    ),
}
"""Folders of the written packages by their names."""


def generated(package: str) -> dict[str, str]:
    """Return the text of each module of a package by the name of its file.

    Raise RuntimeError where the compiler fails.
    """
    well_known = Path(protoc.__file__).parent / "_proto"
    sources = sorted(str(path) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "protoc",
            f"-I{PROTO}",
            f"-I{well_known}",
            f"--python_out={folder}",
            f"--pyi_out={folder}",
        ]
        if protoc.main([*arguments, *sources]):
            raise RuntimeError("The compiler of protocol buffers has failed.")
        found = sorted(Path(folder, "ubp", "v1").iterdir())
        # The compiler names modules by the folders of the .proto files, from the root of the path.
        return {
            path.name: path.read_text().replace("from ubp.v1 import", f"from {package} import")
            for path in found
        }


def main() -> int:
    """Write the modules that differ, and print their names."""
    for package, folder in PACKAGES.items():
        for name, text in generated(package).items():
            path = folder / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
