"""Programs: no shell, no word but the template's, nothing inherited, nothing left behind."""

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import (
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credential_rendering import WireCredential
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.cli.adapter import CliAdapter
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import call_of
from tests.protocols.kits.cli import alive

# Where other users can read it, too.
PYTHON = os.path.realpath("/usr/bin/python3")
ROOT = os.geteuid() == 0
ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture
async def adapter_of(engine, masker):
    made = []

    def build(**settings: Any) -> CliAdapter:
        settings = {"programs": (PYTHON, "/bin/sh"), **settings}
        if ROOT:
            settings.setdefault("program_user", "nobody")
        adapter = CliAdapter(
            AdapterContext(engine, engine.network, masker, Settings(_env_file=None, **settings))
        )
        made.append(adapter)
        return adapter

    yield build
    for adapter in made:
        await adapter.aclose()


def command(code: str, words: str = "") -> str:
    return f"{PYTHON} -I -S -c {shlex.quote(code)} {words}"


def template(*commands: str | tuple[str, bool], **fields: Any) -> dict[str, Any]:
    steps = [
        {"command": one} if isinstance(one, str) else {"command": one[0], "append_to_final_output": one[1]}
        for one in commands
    ]
    return {"call_template_type": "cli", "commands": steps, **fields}


async def call_and_decode(adapter: CliAdapter, raw: Any, arguments: Any = None, **fields: Any) -> Any:
    result = await adapter.call(call_of(adapter, raw, arguments, **fields))
    body = await result.read()
    return json.loads(body) if result.media_type == "application/json" else body.decode()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - other processes set no event.
            await asyncio.sleep(0.02)


async def gone(*pids: int) -> None:
    await until(lambda: not any(alive(pid) for pid in pids))


def end_processes_named(name: str) -> None:
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                os.kill(int(path.parent.name), 9)


def sleeping_children() -> bool:
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return any(
        alive(int(pid)) and b"time.sleep(60)" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids
    )


async def test_an_argument_stays_in_its_word(adapter_of):
    adapter = adapter_of()
    quotations = ("{}", "'{}'", '"{}"')
    placeholders = ("UTCP_ARG_word_UTCP_END", "UTCP_ARG_word_UTCP_ARG")
    words = [quoted.format(f"a{one}b") for quoted in quotations for one in placeholders]
    raw = template(command(ARGV, f"-- {' '.join(words)} UTCP_ARG_word_UTCP_END"))
    for text in ["two words", "$HOME", "$(id)", "`id`", "; id", "a\nb", "'", '"', "\\", "*", "-rf", "$CMD_0_OUTPUT",
                 "UTCP_ARG_word_UTCP_END", "é\u202e", "| cat", "> /tmp/x", "x" * 100_000, ""]:  # fmt: skip
        assert await call_and_decode(adapter, raw, {"word": text}) == ["--", *[f"a{text}b"] * 6, text]


async def test_what_is_no_text_is_given_as_json(adapter_of):
    raw = template(command(ARGV, "UTCP_ARG_a_UTCP_END,UTCP_ARG_b_UTCP_END UTCP_ARG_c_UTCP_END"))
    assert await call_and_decode(adapter_of(), raw, {"a": True, "b": 7, "c": {"d": [None]}}) == [
        "true,7",
        '{"d":[null]}',
    ]


@pytest.mark.parametrize("text", ["-rf", "--help", "-"])
async def test_an_argument_is_no_option(adapter_of, text):
    adapter = adapter_of()
    with pytest.raises(InvalidArguments) as caught:
        await call_and_decode(adapter, template(command(ARGV, "UTCP_ARG_word_UTCP_END")), {"word": text})
    assert caught.value.errors[0].pointer == "/word"
    raw = template(command(ARGV, "--word=UTCP_ARG_word_UTCP_END"))
    assert await call_and_decode(adapter, raw, {"word": text}) == [f"--word={text}"]


@pytest.mark.parametrize(
    ("arguments", "pointer"), [({}, "/word"), ({"word": "a\x00b"}, "/word"), ({"word": "x" * 200_000}, None)],
    ids=["missing", "nul", "long"],
)  # fmt: skip
async def test_what_no_command_can_hold_is_rejected(adapter_of, arguments, pointer):
    with pytest.raises(InvalidArguments) as caught:
        await call_and_decode(adapter_of(), template(command(ARGV, "UTCP_ARG_word_UTCP_END")), arguments)
    assert [fault.pointer for fault in caught.value.errors] == ([pointer] if pointer else [])


@for_each(
    "line",
    ["a | b", "a && b", "a; b", "a > b", "a < b", "$(id)", "`id`", '"`id`"', "$HOME", '"${HOME}"', "a\nb", "*.txt",
     "~/x", "# no", "'open", "$CMD_0_OUTPUT", "${CMD_1_OUTPUT}", ""],
)  # fmt: skip
def test_what_only_a_shell_could_do_is_rejected(adapter_of, line):
    with pytest.raises(InvalidInput) as caught:
        adapter_of().prepare(template(PYTHON + " " + line if line else " "))
    assert caught.value.errors[0].pointer == "/commands/0/command"


@for_each(("given", "pointer"), [
    (template(f"{PYTHON} 'a\x00b'"), "/commands/0/command"), (template(f"{PYTHON} -V \ud800"), "/commands/0/command"),
    ({"call_template_type": "cli", "command_name": f"{PYTHON}\x00"}, "/command_name"),
    (template(f"{PYTHON} -V", env_vars={"A/B": "x\x00"}), "/env_vars/A~1B"),
    (template(f"{PYTHON} -V", working_dir="/tmp\x00"), "/working_dir"),
], ids=["word", "surrogate", "name", "environment", "folder"])  # fmt: skip
def test_what_no_program_can_be_given_is_rejected_where_it_is_written(adapter_of, given, pointer):
    with pytest.raises(InvalidInput) as caught:
        adapter_of(program_folders=("/tmp",)).prepare(given)
    assert [error.pointer for error in caught.value.errors] == [pointer]


@for_each("given", [
    template("/bin/sh -c UTCP_ARG_a_UTCP_END"), {"call_template_type": "cli", "command_name": "sh -c"},
    template(f"{PYTHON} -V", "sh -c $CMD_0_OUTPUT"), template("UTCP_ARG_a_UTCP_END"), template("'' x"),
], ids=["argument", "options", "output", "chosen", "empty"])  # fmt: skip
def test_no_client_writes_a_shells_program_or_chooses_it(adapter_of, given):
    with pytest.raises(InvalidInput):
        adapter_of().prepare(given)


async def test_a_program_is_off_until_the_operator_lists_it(adapter_of):
    for given in (template(PYTHON), {"call_template_type": "cli", "command_name": PYTHON}):
        with pytest.raises(InvalidInput, match="PROGRAMS") as caught:
            adapter_of(programs=()).prepare(given)
        assert caught.value.errors[0].pointer in ("/commands/0/command", "/command_name")
    adapter = adapter_of(programs=(PYTHON,))
    assert "Python" in await call_and_decode(adapter, template(f"{Path(PYTHON).name} -V"))
    for other in ("/bin/cat", "cat", "./python3", f"/bin/../{PYTHON}", "../python3"):
        with pytest.raises(InvalidInput):
            adapter.prepare(template(other))
    with pytest.raises(InvalidInput):
        adapter_of(programs=("/bin/cat", "/usr/bin/cat")).prepare(template("cat"))


async def test_options_of_the_old_spelling(adapter_of):
    raw = {"call_template_type": "cli", "command_name": command(ARGV, "first")}
    given = {
        "key": "two words",
        "yes": True,
        "no": False,
        "none": None,
        "list": ["a", 1],
        "deep": {"a": 1},
        "neg": -5,
    }
    assert await call_and_decode(adapter_of(), raw, given) == [
        "first", "--key", "two words", "--yes", "--list", "a", "--list", "1", "--deep", '{"a":1}', "--neg=-5",
    ]  # fmt: skip
    for name in ("", "-x", "a b", "a=b", "é"):
        with pytest.raises(InvalidArguments):
            await call_and_decode(adapter_of(), raw, {name: "x"})


async def test_outputs_go_on_to_later_commands(adapter_of):
    adapter = adapter_of()
    say = "import sys; print(*sys.argv[1:])"
    raw = template(command(say, "one $HERE two".replace("$HERE", "UTCP_ARG_a_UTCP_END")),
                   command(ARGV, '$CMD_0_OUTPUT "x ${CMD_0_OUTPUT}" \'$CMD_0_OUTPUT\''))  # fmt: skip
    text = "one a  b two"
    assert await call_and_decode(adapter, raw, {"a": "a  b"}) == [text, f"x {text}", "$CMD_0_OUTPUT"]
    raw = template((command(say, "one"), True), (command(say, "two"), False), command("print('three', end='')"),
                   (command(say, "four"), True))  # fmt: skip
    assert await call_and_decode(adapter, raw) == "one\nfour"
    with pytest.raises(UpstreamMalformed):
        await call_and_decode(adapter, template(command("print('-rf')"), command(ARGV, "$CMD_0_OUTPUT")))


@for_each(
    ("written", "value"),
    [('{"a": 1}\n', {"a": 1}), (" [1]", [1]), ("42", "42"), ("{no", "{no"), ("", ""), ("  text \n", "text"), ('"a"', '"a"')],
)  # fmt: skip
async def test_the_response_is_json_where_it_looks_like_it(adapter_of, written, value):
    assert await call_and_decode(adapter_of(), template(command(f"print({written!r}, end='')"))) == value


async def test_the_environment_is_what_is_named(adapter_of, monkeypatch):
    monkeypatch.setenv("CANARY_ONE", "one")
    monkeypatch.setenv("CANARY_TWO", "two")
    show = command("import os, json; print(json.dumps(dict(os.environ)))")
    adapter = adapter_of(program_env_names=("CANARY_ONE", "PYTHONPATH"))
    assert set(await call_and_decode(adapter, template(show))) <= {"LC_CTYPE"}
    raw = template(
        show, env_vars={"OWN": "x", "SEALED": "", "PYTHONPATH": "/nowhere"}, inherit_env_vars=["CANARY_ONE"]
    )
    wire = WireCredential("field", "/env_vars/SEALED", Secret("very-secret"), "default")
    found = await call_and_decode(adapter, raw, credentials=(wire,))
    found.pop("LC_CTYPE", None)
    assert found == {"OWN": "x", "SEALED": "very-secret", "CANARY_ONE": "one", "PYTHONPATH": "/nowhere"}
    shown = adapter.describe(call_of(adapter, raw, credentials=(wire,)))["body"]["environment"]
    assert shown == {"OWN": "x", "SEALED": "***", "CANARY_ONE": "***", "PYTHONPATH": "/nowhere"}
    with pytest.raises(InvalidInput, match="inherited") as caught:
        adapter.prepare(template(show, inherit_env_vars=["CANARY_TWO"]))
    assert "PROGRAM_ENV_NAMES" in caught.value.errors[0].detail
    for name in ("LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "PERL5OPT", "a=b", "", "GIT_SSH_COMMAND"):
        with pytest.raises(InvalidInput):
            adapter.prepare(template(show, env_vars={name: "x"}))


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
async def test_a_credential_that_no_program_can_carry_is_rejected(adapter_of, location):
    wire = WireCredential(location, "X-Key", Secret("very-secret"), "default")
    with pytest.raises(InvalidInput, match="env_vars"):
        await call_and_decode(adapter_of(), template(command(ARGV)), credentials=(wire,))


async def test_the_folder_is_one_of_the_operators(adapter_of, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    for path in (tmp_path, *tmp_path.parents[:-2]):
        path.chmod(0o755)
    adapter = adapter_of(program_folders=(str(tmp_path / "in"),))
    where = command("import os; print(os.getcwd())")
    assert await call_and_decode(adapter, template(where)) == "/"
    assert (
        await call_and_decode(adapter, template(where, working_dir=f"{tmp_path}/in/deep/"))
        == f"{tmp_path}/in/deep"
    )
    for folder in (f"{tmp_path}/out", f"{tmp_path}/in/../out", f"{tmp_path}/inside", "in", "", "/"):
        with pytest.raises(InvalidInput):
            adapter.prepare(template(where, working_dir=folder))
    for folder in ("link", "none"):
        with pytest.raises(UpstreamUnreachable) as caught:
            await call_and_decode(adapter, template(where, working_dir=f"{tmp_path}/in/{folder}"))
        assert not caught.value.request_sent


async def test_an_exit_code_is_a_refusal_that_says_why(adapter_of, masker):
    masker.add("very-secret")
    code = "import sys; print('out'); print('x' * 9000, 'very-secret', file=sys.stderr); sys.exit(3)"
    with pytest.raises(UpstreamRejected, match="exit code 3") as caught:
        await call_and_decode(adapter_of(), template(command(code), command(ARGV)))
    body = caught.value.response.body
    assert (caught.value.status, body["exit_code"], body["stdout"]) == (422, 3, "out\n")
    assert body["stderr"].endswith("x *** \n".replace(" \n", "\n"))
    assert len(body["stderr"]) < 9000


async def test_a_program_that_cannot_be_started_was_sent_nothing(adapter_of, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("no program")
    adapter = adapter_of(programs=("/nowhere/x", str(plain), PYTHON))
    for given, sent in (
        (["/nowhere/x"], False),
        ([str(plain)], False),
        ([f"{PYTHON} -V", "/nowhere/x"], True),
    ):
        with pytest.raises(UpstreamUnreachable) as caught:
            await call_and_decode(adapter, template(*given))
        assert caught.value.request_sent is sent


async def test_nothing_is_inherited_and_nothing_can_be_read(adapter_of):
    code = (
        "import os, sys, json, signal; print(json.dumps({'fds': sorted(os.listdir('/proc/self/fd')),"
        "'stdin': os.readlink('/proc/self/fd/0'), 'group': os.getpgid(0) == os.getsid(0) == os.getpid(),"
        "'user': os.getuid(), 'groups': os.getgroups(), 'umask': os.umask(0),"
        "'ignored': [line for line in open('/proc/self/status') if line.startswith('SigIgn')][0].split()[1],"
        "'privileges': [line for line in open('/proc/self/status') if line.startswith('NoNewPrivs')][0].split()[1]}))"
    )
    found = await call_and_decode(adapter_of(), template(command(code)))
    # The fourth is the listing's own.
    assert (len(found["fds"]), found["stdin"], found["group"]) == (4, "/dev/null", True)
    assert (found["umask"], found["privileges"]) == (0o077, "1")
    if ROOT:
        assert (found["user"], found["groups"]) == (65534, [])


async def test_a_program_has_limits(adapter_of):
    adapter = adapter_of(program_memory_bytes=1 << 28, program_file_bytes=1000, program_open_files=50,
                         program_cpu_seconds=7)  # fmt: skip
    names = ["AS", "FSIZE", "NOFILE", "CPU", "CORE"]
    code = f"import resource as r; print([r.getrlimit(getattr(r, 'RLIMIT_' + name)) for name in {names}])"
    assert (
        await call_and_decode(adapter, template(command(code)))
        == "[(268435456, 268435456), (1000, 1000), (50, 50), (7, 7), (0, 0)]"
    )
    with pytest.raises(UpstreamRejected):
        await call_and_decode(adapter, template(command("bytearray(1 << 29)")))
    quick = adapter_of(program_cpu_seconds=1)
    with pytest.raises(UpstreamMalformed, match="signal 9"):
        await call_and_decode(quick, template(command("while True: pass")))


async def test_a_fork_bomb_is_bounded_and_ends_with_its_call(adapter_of, tmp_path):
    """Every process of it tells its number; under the limit, forking fails soon."""
    tmp_path.chmod(0o777)
    for path in tmp_path.parents[:-2]:
        path.chmod(0o755)
    adapter = adapter_of(program_processes=20, program_folders=(str(tmp_path),))
    code = (
        "import os, time\n"
        "while True:\n"
        "    open(str(os.getpid()), 'w').close()\n"
        "    try: os.fork()\n"
        "    except OSError: time.sleep(0.05)\n"
    )
    with pytest.raises(UpstreamTimeout):
        await call_and_decode(adapter, template(command(code), working_dir=str(tmp_path)), seconds=2)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert 1 < len(pids) <= 40
    await gone(*pids)


async def test_a_gigabyte_of_output_is_cut_off(adapter_of):
    code = "import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 20))"
    with pytest.raises(ResponseTooLarge):
        await call_and_decode(adapter_of(), template(command(code)), limits=Limits(response_bytes=8 << 20))
    with pytest.raises(ResponseTooLarge):
        await call_and_decode(
            adapter_of(),
            template((command(code), False), command(ARGV)),
            limits=Limits(response_bytes=8 << 20),
        )
    assert (
        await call_and_decode(
            adapter_of(), template(command(code.replace("write(1", "write(2") + "\nprint('done')"))
        )
        == "done"
    )


async def test_what_a_program_leaves_behind_ends_with_it(adapter_of):
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "time.sleep(60) if not child else print(child, flush=True)\n"
    )
    await gone(int(await call_and_decode(adapter_of(), template(command(code)))))


@pytest.mark.parametrize("how", ["deadline", "cancelled", "closed", "aclose"])
async def test_a_program_that_ignores_sigterm_ends_with_its_group(adapter_of, how):
    adapter = adapter_of()
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "child and print(os.getpid(), child, flush=True)\n"
        "time.sleep(60)\n"
    )
    result = await adapter.call(
        call_of(
            adapter,
            template(command(code)),
            streaming=True,
            seconds=10,
            limits=Limits(idle=0.3 if how == "deadline" else 30),
        )
    )
    event = await anext(result.events)
    pids = [int(word) for word in event.data.split()]
    assert all(alive(pid) for pid in pids)
    if how == "deadline":
        with pytest.raises(UpstreamTimeout):
            await anext(result.events)
    elif how == "cancelled":
        waiting = asyncio.create_task(anext(result.events))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    elif how == "closed":
        await result.aclose()
        await result.aclose()
    else:
        await adapter.aclose()
    await gone(*pids)
    await result.events.aclose()


async def test_a_process_that_leaves_the_group_does_not_hold_the_call(adapter_of):
    code = "import os, time\nif not os.fork():\n    os.setsid(); time.sleep(60)\nelse: time.sleep(0.2); print('done')"
    code = code.replace("os.setsid();", "os.setsid(); open('/proc/self/comm', 'w').write('left-the-group');")
    # The process outlives the call three times over.
    assert await call_and_decode(adapter_of(), template(command(code)), seconds=20) == "done"
    end_processes_named("left-the-group")


async def test_only_so_many_programs_run_at_once(adapter_of):
    adapter = adapter_of(program_concurrency=1)
    wait = template(command("import time; time.sleep(60)"))
    first = asyncio.create_task(call_and_decode(adapter, wait))
    await asyncio.sleep(0)
    with pytest.raises(UpstreamTimeout) as caught:
        await call_and_decode(adapter, template(command(ARGV)), seconds=0.3)
    assert not caught.value.request_sent
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await call_and_decode(adapter, template(command(ARGV))) == []


async def test_lines_come_as_they_are_written(adapter_of):
    adapter = adapter_of()
    code = "import sys, time\nprint('one', flush=True); time.sleep(0.3); print('{\"n\": 2}', flush=True); sys.exit(4)"
    result = await adapter.call(call_of(adapter, template(command(code)), streaming=True))
    events = aiter(result.events)
    seen = [(event.kind, event.data) for event in [await anext(events), await anext(events)]]
    assert seen == [("text", b"one"), ("json", b'{"n": 2}')]
    with pytest.raises(UpstreamRejected, match="exit code 4"):
        await anext(events)
    long = template(command("print('x' * 5000)"))
    result = await adapter.call(call_of(adapter, long, streaming=True, limits=Limits(event_bytes=1000)))
    with pytest.raises(ResponseTooLarge):
        await anext(result.events)


async def test_a_call_that_is_cancelled_while_it_starts_leaves_nothing(adapter_of):
    adapter = adapter_of()
    raw = template(command("import time; time.sleep(60)"))
    for turns in range(12):
        calling = asyncio.create_task(call_and_decode(adapter, raw))
        for _ in range(turns):
            await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    await until(lambda: not sleeping_children())


@pytest.mark.parametrize("user", ["nobody-of-that-name", "65533"])
def test_an_unusable_user_is_rejected_when_prepared(adapter_of, user):
    adapter = adapter_of(program_user=user)
    if ROOT and user.isdecimal():
        adapter.prepare(template(PYTHON))
        return
    with pytest.raises(InvalidInput, match="PROGRAM_USER"):
        adapter.prepare(template(PYTHON))
