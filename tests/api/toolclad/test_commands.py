"""Tools of manifests that run commands: words, flags, conditions, environment, output and its end."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.api.toolclad.conftest import SECRET
from tests.harness.cases import for_each

ARGUMENTS = """
[args.target]
position = 1
type = "scope_target"
required = true

[args.profile]
position = 2
type = "enum"
allowed = ["quick", "full"]
default = "quick"

[args.note]
position = 3
type = "string"
default = ""

[args.offset]
type = "integer"
"""
OUTPUT = """
[output]
format = "json"

[output.schema]
"""


def manifest(
    name: str, command: str, *, arguments: str = ARGUMENTS, output: str = OUTPUT, tool: str = ""
) -> str:
    return f'[tool]\nname = "{name}"\ndescription = "A command."\n{tool}\n{arguments}\n{command}\n{output}'


async def words(clad, command: str, arguments: dict, **fields) -> list[str]:
    await clad.register("tool", manifest("run", command), **fields)
    response = await clad.call("tool.run", arguments)
    assert response.status_code == 200, response.text
    return response.json()


async def test_each_item_of_exec_is_one_word(clad) -> None:
    command = '[command]\nexec = ["echo", "--to={target}", "{note}", "a b", "{offset}"]'
    assert await words(clad, command, {"target": "db.example", "note": "x  y 'z", "offset": -5}) == [
        "--to=db.example", "x  y 'z", "a b", "-5",
    ]  # fmt: skip


async def test_exec_precedes_template(clad) -> None:
    command = '[command]\nexec = ["echo", "exec"]\ntemplate = "echo template"'
    assert await words(clad, command, {"target": "h"}) == ["exec"]


async def test_a_template_is_split_before_values_are_inserted(clad) -> None:
    command = (
        """[command]\ntemplate = '''echo -n "{target} {note}" {note} 'single $q' a\\ b {offset}\n  end'''"""
    )
    assert await words(clad, command, {"target": "h", "note": "one two"}) == [
        "-n", "h one two", "one two", "single $q", "a b", "end",
    ]  # fmt: skip


FLAGS = """
[command]
exec = ["echo", "{_profile_flags}", "{_verbose}", "{_both}", "--rate={rate}", "{target}"]

[command.defaults]
rate = 100

[command.mappings.profile]
quick = "-T4 -F"
full = "-p- '--script=a b'"

[command.conditionals.verbose]
when = "note != ''"
template = "-v --note '{note}'"

[command.conditionals.both]
when = "profile == 'full' and note == \\"x y\\" and rate == 100"
template = "--both {_profile_flags}"
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["-T4", "-F", "--rate=100", "h"]),
        ({"note": "n"}, ["-T4", "-F", "-v", "--note", "n", "--rate=100", "h"]),
        (
            {"note": "x y", "profile": "full"},
            [
                "-p-",
                "--script=a b",
                "-v",
                "--note",
                "x y",
                "--both",
                "-p-",
                "--script=a b",
                "--rate=100",
                "h",
            ],
        ),
    ],
)
async def test_mappings_and_conditionals_add_their_words(clad, arguments, expected) -> None:
    assert await words(clad, FLAGS, {"target": "h", **arguments}) == expected


async def test_a_value_never_becomes_an_option_a_word_more_or_a_placeholder(clad) -> None:
    command = '[command]\nexec = ["echo", "{note}"]'
    await clad.register("tool", manifest("run", command))
    option = await clad.call("tool.run", {"target": "h", "note": "--output=/etc/passwd"})
    assert option.status_code == 422
    assert option.json()["errors"][0]["pointer"] == "/note"
    for text in ("{target}", "$(id)", "`id`", "a;b", "a|b", "a&b", "a\nb", "a>b", "x{_secret:y}"):
        assert (await clad.call("tool.run", {"target": "h", "note": text})).status_code == 422, text


async def test_an_executor_has_its_arguments_in_the_environment(clad) -> None:
    await clad.register("tool", manifest("run", '[command]\nexecutor = "env"'))
    response = await clad.envelope("tool.run", {"target": "db.example", "offset": 7})
    assert response.status_code == 200, response.text
    envelope = response.json()
    environment = envelope["results"]
    assert environment["TOOLCLAD_ARG_TARGET"] == "db.example"
    assert environment["TOOLCLAD_ARG_PROFILE"] == "quick"
    assert environment["TOOLCLAD_ARG_OFFSET"] == "7"
    assert environment["TOOLCLAD_TOOL_NAME"] == "run"
    assert environment["TOOLCLAD_SCAN_ID"] == envelope["scan_id"]
    assert environment["TOOLCLAD_OUTPUT_DIR"].startswith(environment["TOOLCLAD_EVIDENCE_DIR"])
    assert not Path(environment["TOOLCLAD_EVIDENCE_DIR"]).exists()  # noqa: ASYNC240 - a look at one file.


async def test_the_file_that_a_program_writes_is_its_output(clad) -> None:
    command = '[command]\nexec = ["report", "{_output_file}", "id,open\\\\n1,true\\\\n"]'.replace(
        "\\\\n", "\\n"
    )
    output = '[output]\nformat = "csv"\n[output.schema]\ntype = "array"'
    await clad.register("tool", manifest("run", command, output=output))
    response = await clad.call("tool.run", {"target": "h"})
    assert response.json() == [{"id": 1, "open": True}]


async def test_a_program_may_parse_the_output(clad) -> None:
    output = '[output]\nparser = "parse"\n[output.schema]\nrequired = ["lines"]'
    await clad.register("tool", manifest("run", '[command]\nexec = ["echo", "a", "b"]', output=output))
    response = await clad.envelope("tool.run", {"target": "h"})
    assert response.json()["results"] == {"lines": ['["a",', '"b"]']}
    await clad.application.services.call_log.flush()
    recorded = await clad.client.get(f"/calls/{response.headers['x-call-id']}/envelope")
    assert recorded.content == response.content


@pytest.mark.parametrize(
    ("kind", "written", "results"),
    [
        ("text", "two\\nlines", {"raw_output": "two\nlines"}),
        ("json", ' {\\"a\\": [1]} ', {"a": [1]}),
        ("jsonl", '{\\"a\\": 1}\\n\\n{\\"a\\": 2}', [{"a": 1}, {"a": 2}]),
        ("csv", "a|b\\nx|1.5\\n", [{"a": "x", "b": 1.5}]),
        (
            "xml",
            "<r x='1'><h>a</h><h p='2'/>t</r>",
            {"r": {"@x": "1", "#text": "t", "h": [{"#text": "a"}, {"@p": "2"}]}},
        ),
    ],
)
async def test_output_is_read_by_its_format(clad, kind, written, results) -> None:
    command = f"[command]\nexec = ['say', '''{written}''']".replace('\\"', '"')
    output = f'[output]\nformat = "{kind}"\n[output.schema]'
    await clad.register("tool", manifest("run", command, output=output))
    response = await clad.call("tool.run", {"target": "h"})
    assert response.status_code == 200, response.text
    assert response.json() == results


async def test_output_that_is_not_in_its_format_is_an_error_with_evidence(clad) -> None:
    await clad.register("tool", manifest("run", '[command]\nexec = ["say", "no json"]'))
    failed = await clad.call("tool.run", {"target": "h"})
    assert failed.status_code == 502
    assert failed.json()["detail"].startswith("The output is not JSON.")
    envelope = (await clad.envelope("tool.run", {"target": "h"})).json()
    assert envelope["status"] == "error"
    assert envelope["results"]["raw_output"] == "no json"


async def test_results_that_do_not_fit_their_schema_are_reported(clad) -> None:
    output = '[output]\nformat = "json"\n[output.schema]\ntype = "object"'
    await clad.register("tool", manifest("run", '[command]\nexec = ["echo"]', output=output))
    response = await clad.call("tool.run", {"target": "h"})
    assert response.headers["x-response-violations"].startswith("count=1")
    envelope = (await clad.envelope("tool.run", {"target": "h"})).json()
    assert (envelope["status"], envelope["results"]["raw_output"]) == ("error", "[]\n")


async def test_a_program_that_fails_leaves_its_exit_code_and_both_outputs(clad) -> None:
    await clad.register("tool", manifest("run", '[command]\nexec = ["fail"]'))
    response = await clad.envelope("tool.run", {"target": "h"})
    assert response.status_code == 422
    envelope = response.json()
    assert (envelope["status"], envelope["exit_code"]) == ("error", 3)
    assert envelope["stderr"].strip() == "went wrong"
    assert envelope["results"]["raw_output"].strip() == "partial"


async def test_the_whole_process_group_is_killed_at_the_timeout(clad) -> None:
    marker = clad.folder / "child"
    command = f'[command]\nexec = ["hang", "{marker}"]'
    await clad.register("tool", manifest("run", command, tool="timeout_seconds = 2"))
    response = await clad.envelope("tool.run", {"target": "h"})
    assert response.status_code == 504, response.text
    envelope = response.json()
    assert (envelope["status"], envelope["exit_code"]) == ("timeout", -1)
    child = int(marker.read_text())
    async with asyncio.timeout(60):
        while is_running(child):  # noqa: ASYNC110 - another process has no event.
            await asyncio.sleep(0.1)


def is_running(process: int) -> bool:
    """Return whether a process of another program has not ended, or is not even a zombie."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


PATHS = """
[args.file]
type = "credential_file"
required = true
"""


async def test_files_are_inside_of_the_programs_folder(clad) -> None:
    (clad.folder / "key.txt").write_text(SECRET[:7])
    (clad.folder / "key.txt").chmod(0o644)
    link = clad.folder / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/hostname")
    output = '[output]\nformat = "text"\n[output.schema]'
    await clad.register(
        "tool", manifest("run", '[command]\nexec = ["cat", "{file}"]', arguments=PATHS, output=output)
    )
    found = await clad.call("tool.run", {"file": "key.txt"})
    assert found.json() == {"raw_output": SECRET[:7]}, found.text
    for path in (
        "link",
        "missing.txt",
        "/etc/hostname",
        "../work/key.txt",
        ".",
        "key.txt\x00",
        "a\x00b",
        "x" * 4096,
    ):
        response = await clad.call("tool.run", {"file": path})
        assert response.status_code == 422, path
        assert response.json()["errors"][0]["pointer"] == "/file", path


@for_each(
    "command",
    [
        '[command]\nexec = ["echo", "{target}", "{note}"]',
        "[command]\ntemplate = 'echo {target} \"{note}\"'",
        '[command]\nexecutor = "env"',
        '[command]\nexec = ["echo"]\n[command.conditionals.x]\nwhen = "note != \'\'"\ntemplate = "-x {note}"',
    ],
)
async def test_an_argument_that_no_program_can_be_given_is_named(clad, command) -> None:
    await clad.register("nul", manifest("run", command))
    response = await clad.call("nul.run", {"target": "h", "note": "a\x00b"})
    assert response.status_code == 422, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == ["/note"]
    assert (await clad.client.delete("/providers/nul")).status_code == 204


@for_each(
    ("command", "at", "reason"),
    [
        ('[command]\nexec = ["rm", "{target}"]', "/command", "PROGRAMS"),
        ('[command]\nexec = ["{target}"]', "/command/exec/0", "no argument can choose"),
        ('[command]\ntemplate = "echo {target} | sh"', "/command/template", "no shell"),
        ('[command]\ntemplate = "echo \'{target}"', "/command/template", "quote"),
        ('[command]\nexec = ["echo", "{nothing}"]', "/command/exec", "no value"),
        ('[command]\nexec = ["echo", "{_secret:key}"]', "/command/exec", "visible to other programs"),
        (
            '[command]\nexec = ["echo"]\n[command.conditionals.x]\nwhen = "note == \'a\' or note == \'b\'"\ntemplate = "-x"',
            "/command/conditionals/x/when",
            "`and`",
        ),
        (
            '[command]\nexec = ["echo"]\n[command.conditionals.x]\nwhen = "__import__(\'os\')"\ntemplate = "-x"',
            "/command/conditionals/x/when",
            "comparisons",
        ),
        ("[command]\n", "/command", "exec, template or executor"),
    ],
    ids=["no program", "chosen", "pipe", "quote", "nothing", "secret", "or", "code", "empty"],
)
async def test_a_command_that_could_not_be_run_is_rejected(clad, command, at, reason) -> None:
    problem = await clad.register("tool", manifest("run", command), expected=422)
    error = problem["errors"][0]
    assert reason in str(problem["errors"]), problem
    assert error["pointer"].removeprefix("/source/document") == at, problem


async def test_a_shell_gets_no_argument(clad) -> None:
    assert os.path.basename("/bin/sh") == "sh"  # noqa: PTH119
    problem = await clad.register(
        "tool", manifest("run", '[command]\nexec = ["sh", "-c", "{note}"]'), expected=422
    )
    assert "PROGRAMS" in str(problem)
