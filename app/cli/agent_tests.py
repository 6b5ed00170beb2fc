"""`utcp-gateway agent-test`: run a test of models with tools."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.errors import CommandFailed, ExitCode, GatewayUnreachable, InputError, ProblemResponse
from app.cli.output import CommandOutput, shorten
from app.cli.session import ClientSession, SessionContext
from app.cli.values import build_url_path, read_bytes, read_secret

_FIRST_POLL_SECONDS, _POLL_SECONDS_MAX = 0.05, 2.0
#: Consecutive polls that may fail: a restart of a gateway behind a proxy takes a few seconds.
_FAILED_POLLS_MAX = 5
_INVALID = (400, 413, 422)
_ASSERTIONS_SHOWN = 20


def agent_test(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The test as YAML or JSON; - for stdin.")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="In place of the models of the file; repeatable."),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option("--repeat", min=1, help="In place of the repetitions of the file.")
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            "--api-key",
            metavar="MODEL=SOURCE",
            help="The key of a model of the file: env:NAME or @FILE; repeatable.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML to this file.")
    ] = None,
) -> None:
    """Run a test of models with tools, and show the result of each case with each model.

    Exit codes: 0 all results have passed; 1 one of them has not; 2 the file or the command line is wrong. The
    models are asked by the gateway, with the keys that it is configured with. Ctrl-C cancels the test.
    """
    session = ctx.obj
    test = _with_keys(_override_models(_read_test(file), model, repeat), api_key or [])
    ended = _run(session, test)
    if junit is not None and ended.get("results") is not None:
        path = build_url_path("agent-tests", ended["id"])
        content = session.gateway.get(path, query={"format": "junit"}).body
        try:
            junit.write_bytes(content)
        except OSError as error:
            raise InputError(f"{junit} cannot be written: {error.strerror}.") from None
    if session.output.is_structured:
        session.output.write_document(ended)
    else:
        _show(session.output, ended)
    if ended["state"] == "failed":
        problem = {"title": "The test failed", **(ended.get("problem") or {})}
        raise ProblemResponse(problem, status=int(problem.get("status") or 500))
    if not ended.get("passed"):
        raise typer.Exit(ExitCode.FAILED)


def _read_test(file: str) -> dict[str, Any]:
    """Return a test file as a JSON object; raise InputError."""
    # The loader reads YAML 1.2, of which JSON is a part, within limits.
    from app.core.errors import GatewayError
    from app.formats.archive import DocumentLimits
    from app.openapi.reading.yaml_load import load_yaml

    def reject(pointer: str, detail: str) -> None:
        raise InputError(f"{file}: {pointer or 'the document'}: {detail}")

    try:
        test = load_yaml(read_bytes(file), limits=DocumentLimits(), warn=reject)
    except GatewayError as error:
        where = "".join(f" {one.detail}" for one in error.errors[:1])
        raise InputError(f"{file} is neither YAML nor JSON: {error.detail}{where}") from None
    if not isinstance(test, dict):
        raise InputError(f"{file} must be an object with `cases`, or with `input`.")
    return test


def _override_models(test: dict[str, Any], models: list[str] | None, repeat: int | None) -> dict[str, Any]:
    """Return a test whose cases all have these models and repetitions, where they are not None."""
    given: dict[str, Any] = {"models": models or None, "repeat": repeat}
    for name, value in given.items():
        if value is None:
            continue
        for case in _list_objects(test.get("cases")):
            case.pop(name, None)
        test[name] = value
    return test


def _with_keys(test: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return a test whose models have these keys; raise InputError for a key in the file.

    A file may come from somebody else: it does not say which variable is sent to which address.
    """
    models: dict[str, list[dict[str, Any]]] = {}
    for model in _list_models(test):
        if "api_key" in model:
            raise InputError("A key is no part of a test file: give it with --api-key MODEL=env:NAME.")
        for name in {str(model.get("model")), str(model.get("name") or model.get("model"))}:
            models.setdefault(name, []).append(model)
    for item in keys:
        name, separator, source = item.partition("=")
        if not separator or not source.startswith(("env:", "@")):
            raise InputError("--api-key is MODEL=env:NAME or MODEL=@FILE.")
        if name not in models:
            raise InputError(f"--api-key: no model of the file that is an object is called {name}.")
        secret = read_secret(source, prompt=f"The key of {name}")
        for model in models[name]:
            model["api_key"] = secret
    return test


def _list_models(test: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for part in (test, *_list_objects(test.get("cases"))):
        yield from _list_objects(part.get("models"))


def _list_objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _run(session: ClientSession, test: dict[str, Any]) -> dict[str, Any]:
    """Start a test and return it once it has ended; cancel it on Ctrl-C."""
    try:
        response = session.gateway.send(
            "POST", "/agent-tests", json=test, headers={"Prefer": "respond-async"}
        )
    except ProblemResponse as failed:
        if failed.status in _INVALID:
            failed.exit_code = ExitCode.USAGE
        raise
    started: dict[str, Any] = response.json()
    if response.status != 202:
        return started
    try:
        return _poll(session, str(started["id"]))
    except KeyboardInterrupt:
        with suppress(CommandFailed):
            session.gateway.send("POST", build_url_path("agent-tests", started["id"], "cancel"))
        raise


def _poll(session: ClientSession, test_id: str) -> dict[str, Any]:
    wait, failures = _FIRST_POLL_SECONDS, 0
    with session.output.show_progress("Running the test") as report:
        while True:
            time.sleep(wait)
            wait = min(wait * 1.5, _POLL_SECONDS_MAX)
            try:
                test_run: dict[str, Any] = session.gateway.get(build_url_path("agent-tests", test_id)).json()
            except CommandFailed as failed:
                failures += 1
                server_error = isinstance(failed, ProblemResponse) and failed.status >= 500
                if failures >= _FAILED_POLLS_MAX or not (
                    server_error or isinstance(failed, GatewayUnreachable)
                ):
                    failed.hint = f"the test continues nevertheless: its id is {test_id}."
                    raise
                continue
            failures = 0
            if test_run["state"] != "running":
                return test_run
            report(test_run["progress"]["done"], test_run["progress"]["total"])


def _show(output: CommandOutput, test: Mapping[str, Any]) -> None:
    results = test.get("results") or []
    output.write_table(
        ("CASE", "MODEL", "PASSED", "SCORE", "REPEAT", "CALLS", "TOKENS", "COST"),
        [_build_row(one) for one in results],
    )
    for warning in test.get("warnings") or ():
        output.warn(warning)
    for result in results:
        if not result["passed"]:
            _show_failure(output, result)
    seconds = sum(one["durationMs"] for one in results) / 1000
    summary = test.get("summary")
    if summary is not None:
        output.note(
            f"{summary['passed']} of {summary['results']} passed, {summary['failed']} failed, "
            f"{summary['errors']} with an error, in {seconds:.1f} s of conversations."
        )
    if test["state"] == "cancelled":
        output.warn("The test was cancelled.")


def _build_row(result: Mapping[str, Any]) -> tuple[object, ...]:
    usage = result.get("usage")
    tokens = None if usage is None else usage["inputTokens"] + usage["outputTokens"]
    cost = None if usage is None or "cost" not in usage else f"{usage['cost']:.4f} {usage['currency']}"
    repeat = result["repeat"]
    passed = f"{round(result['passRate'] * repeat)} of {repeat}" if repeat > 1 else None
    return (
        result["testCase"]["name"], result["model"], "yes" if result["passed"] else "NO",
        f"{result['score']:.2f}", passed, len(result["calls"]), tokens, cost,
    )  # fmt: skip


def _show_failure(output: CommandOutput, result: Mapping[str, Any]) -> None:
    output.warn(f"{result['testCase']['name']} with {result['model']}:")
    if result.get("error"):
        output.note(f"  {shorten(result['error'], length=500)}")
    failed = [assertion for assertion in result.get("assertionDetails") or () if not assertion["passed"]]
    for assertion in failed[:_ASSERTIONS_SHOWN]:
        output.note(f"  {assertion['type']}: {shorten(assertion['message'], length=500)}")
