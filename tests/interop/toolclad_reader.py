"""Reads manifests with the released package `toolclad`, in an environment of its own; standard input and output are JSON.

`{"manifests": {name: text}, "project": text, "values": [[type, constraints, text]], "calls": [[name, arguments]]}` ->
`{"read": {name: error or null}, "values": [error or the text], "words": [words or error], "envelopes": [envelope]}`.
"""

import json
import shlex
import sys
import tempfile
from pathlib import Path

from toolclad.executor import build_command, build_command_argv, execute
from toolclad.manifest import ArgDef, load_custom_types, load_manifest
from toolclad.validator import ValidationError, validate_arg_with_custom_types


def main() -> None:
    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "toolclad.toml")
        project.write_text(given["project"])
        types = load_custom_types(str(project))
        manifests, read = {}, {}
        for name, text in given["manifests"].items():
            path = Path(folder, name)
            path.write_text(text)
            try:
                manifests[name] = load_manifest(str(path))
                read[name] = None
            except ValueError as error:
                read[name] = str(error)
        values = [_validated(one, types) for one in given["values"]]
        words = [_words(manifests[name], arguments) for name, arguments in given["calls"]]
        envelopes = [execute(manifests[name], arguments) for name, arguments in given["executed"]]
    json.dump({"read": read, "values": values, "words": words, "envelopes": envelopes}, sys.stdout)


def _validated(given: list, types: dict) -> list:
    kind, constraints, text = given
    try:
        return [True, validate_arg_with_custom_types(ArgDef(name="a", type=kind, **constraints), text, types)]
    except ValidationError:
        return [False, None]


def _words(manifest: object, arguments: dict) -> list:
    if manifest.command.exec:
        return build_command_argv(manifest, arguments)
    return shlex.split(build_command(manifest, arguments))


if __name__ == "__main__":
    main()
