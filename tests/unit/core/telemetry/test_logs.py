"""Log lines: structured, one per event, and without secrets."""

import json
import logging

import pytest
import structlog
from pydantic import SecretStr

from app.core.errors import ResponseTruncated
from app.core.telemetry.logs import configure_logging
from app.core.telemetry.redaction import redact_text
from app.security.masking import Masker
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.harness.scaling import assert_linear

CANARY = "canary-8f2e77c1"
KEY = "ugw_" + "A" * 12 + "_" + "b" * 38


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(params=["json", "console"])
def lines(request, capsys):
    masker = Masker()
    configure_logging("info", request.param, masker)

    def read():
        return capsys.readouterr().err

    read.masker = masker
    return read


def _fail(text):
    raise ValueError(text)


def test_a_json_line_has_time_level_and_fields(capsys):
    configure_logging("info", "json")
    structlog.get_logger().warning("request failed", route="/tools/{name}", status=502)
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "request failed", "level": "warning", "route": "/tools/{name}", "status": 502}


def test_lower_levels_are_not_written(lines):
    structlog.get_logger().debug("quiet")
    logging.getLogger("some.library").debug("quiet")
    assert lines() == ""


@for_each(
    "name",
    [
        "Authorization",
        "x-api-key",
        "apiKey",
        "client_secret",
        "accessToken",
        "password",
        "Set-Cookie",
        "database_url",
        "sealing_keys",
        "credential",
    ],
)
def test_fields_with_secret_names_are_masked(lines, name):
    structlog.get_logger().info("stored", **{name: CANARY}, nested={"headers": [{name: CANARY}]})
    text = lines()
    assert CANARY not in text
    assert "stored" in text


def test_ordinary_names_stay(lines):
    structlog.get_logger().info("created", key_id="abc123", tool="library.searchBooks", tokens_used=3)
    text = lines()
    assert "abc123" in text
    assert "library.searchBooks" in text


def test_secret_types_are_masked_at_any_place(lines):
    structlog.get_logger().info(
        Secret(CANARY), one=Secret(CANARY), two=SecretStr(CANARY), three=[{"a": (Secret(CANARY),)}]
    )
    assert CANARY not in lines()


def test_live_values_are_masked_in_text_and_exceptions(lines):
    lines.masker.add(CANARY)
    try:
        int(f"cannot use {CANARY}")
    except ValueError:
        structlog.get_logger().exception(f"failed with {CANARY}", answer=f"<{CANARY}>")
        logging.getLogger("some.library").exception("failed with %s", CANARY)
    text = lines()
    assert CANARY not in text
    assert text.count("ValueError") >= 2


@for_each("value", ['quote"d-secret-value', "back\\slash-secret", "two\nlines-secret", "ünïcode-secret"])
def test_live_values_are_masked_however_they_are_escaped(lines, value):
    lines.masker.add(value)
    shown = [value, json.dumps(value), json.dumps(json.dumps({"token": value})), repr(value)]
    for text in shown:
        structlog.get_logger().info(f"answered {text}", answer=text, deep=[{"x": text}])
        logging.getLogger("some.library").warning("answered %s", text)
    try:
        _fail(value)
    except ValueError:
        structlog.get_logger().exception("failed")
    text = lines()
    for part in ("-secret", "secret-value"):
        assert part not in text


def test_local_variables_are_never_shown(lines):
    def fail():
        local = "local-" + CANARY
        raise ValueError(len(local))

    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("failed")
    text = lines()
    assert "ValueError" in text
    assert "local-canary" not in text


@for_each(
    "text",
    [
        f"GET https://api.example.com/v1?key={CANARY} failed",
        f"connect to postgresql://gateway:{CANARY}@db.internal:5432/gateway",
        f"redis://:{CANARY}@cache:6379",
        f"header Authorization: Bearer {CANARY}aaaa",
        f"header Authorization: Basic {CANARY}==",
    ],
)
def test_what_looks_like_a_secret_is_masked_in_any_text(lines, text):
    structlog.get_logger().info(text, said=text)
    logging.getLogger("some.library").warning("%s", text)
    shown = lines()
    assert CANARY not in shown
    assert text[:4] in shown


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@for_each(
    "text",
    [
        "password=hunter2222",
        "client_secret: hunter2222",
        "X-Api-Key: hunter2222",
        'said {"access_token": "hunter2222"}',
        'said {\\"access_token\\": \\"hunter2222\\"}',
        "POST grant_type=x&client_secret=hunter2222&scope=y",
        "/relative/path?api_key=hunter2222 failed",
        f"token {JWT}",
        "key AKIAHUNTER2222222222",
        "ghp_hunter2222hunter2222hunter2222",
        "sk-hunter2222hunter2222hunter2222",
        "xoxb-hunter2222-hunter2222",
    ],
)
def test_tokens_that_nobody_told_us_of_are_known_by_their_shape(lines, text):
    assert "hunter2222" in text.lower() or JWT in text
    structlog.get_logger().info(text, said=text)
    logging.getLogger("some.library").warning("%s", text)
    shown = lines()
    assert "hunter2222" not in shown.lower()
    assert "dozjgNryP4J3" not in shown


@for_each(
    "text",
    [
        "the token endpoint gave no token in the time that the call has",
        "tokens_used=30000 of the budget",
        "skipped risk-management-department-of-everything",
        "basic auth is stored",
        "a secret of this provider is missing",
    ],
)
def test_ordinary_words_stay(lines, text):
    structlog.get_logger().info(text)
    assert text in lines()


@for_each(
    "name",
    ["passphrase", "AWS_SECRET_ACCESS_KEY", "tokens", "otel_exporter_otlp_headers", "X-Signature", "db_pwd"],
)
def test_more_names_of_secrets_are_known(lines, name):
    structlog.get_logger().info("stored", **{name: CANARY})
    assert CANARY not in lines()


def test_a_json_line_stays_json_whatever_is_struck_out(capsys):
    configure_logging("info", "json")
    structlog.get_logger().info(
        'x={"token": 12345678}', a='"password":"abcdefgh"', b={"max_token": 16000}, c='secret=a\\b"c', d=JWT
    )
    assert "12345678" not in json.dumps(json.loads(capsys.readouterr().err))


@for_each("text", ["a", "token", "a-", "eyJ.", "password= ", "://"])
def test_redaction_of_hostile_text_is_linear(text):
    assert_linear(lambda number: redact_text(text * number), 3_000)


def test_a_url_keeps_host_and_path(lines):
    structlog.get_logger().info("called", upstream="https://u:p@api.example.com/v1/pets?x=1")
    assert "https://api.example.com/v1/pets?***" in lines()


def test_queries_of_paths_are_masked(lines):
    structlog.get_logger().info("request", path=f"/utcp?token={CANARY}")
    text = lines()
    assert "/utcp?***" in text
    assert CANARY not in text


def test_our_own_keys_are_masked_but_for_their_id(lines):
    structlog.get_logger().info("seen", header=KEY)
    logging.getLogger("x").warning(KEY)
    text = lines()
    assert KEY not in text
    assert text.count("ugw_AAAAAAAAAAAA_***") == 2


def test_text_of_clients_cannot_forge_a_line(lines):
    structlog.get_logger().info("name\nforged line\r\x1b[31m", value="x\nforged line")
    text = lines()
    assert text.count("\n") == 1
    assert "\x1b[31m" not in text
    assert "\r" not in text


@for_each("end", ["\n", "\r\n", "\u2028", "\x85", "\x0b", "\x1c"])
def test_the_text_of_an_error_cannot_forge_a_line(lines, end):
    assert len(f"a{end}b".splitlines()) == 2
    try:
        _fail(f"refused{end}2026-01-01T00:00:00Z [info     ] forged line{end}\x1b[31m")
    except ValueError:
        structlog.get_logger().exception("failed")
        logging.getLogger("some.library").exception("failed")
    text = lines()
    assert "\x1b[31m" not in text
    assert "forged" in text
    for line in text.splitlines():
        assert not line.startswith("2026-01-01")


def our_handler() -> logging.Handler:
    return next(
        one for one in logging.getLogger().handlers if type(one).__module__ == "app.core.telemetry.logs"
    )


def test_odd_values_do_not_break_logging(lines):
    structlog.get_logger().info(
        "odd", surrogate="\ud800", big=1 << 80, thing=object(), blob=b"\xff", keys={1: 2}
    )
    # Straight to our handler: pytest would pass it on between its processes, and cannot.
    our_handler().handle(logging.LogRecord("x", logging.WARNING, __file__, 1, "\ud800 %s", (1,), None))
    assert lines().count("\n") == 2


def test_a_broken_record_of_a_library_does_not_raise_or_show_its_arguments(lines):
    # Straight to our handler, because pytest's own raises here.
    our_handler().handle(logging.LogRecord("x", logging.WARNING, __file__, 1, "%d", (CANARY,), None))
    text = lines()
    assert CANARY not in text
    assert "could not be written" in text


def test_access_lines_of_uvicorn_are_silent_and_its_others_are_not(lines):
    logging.getLogger("uvicorn.access").info("GET /utcp?token=x")
    logging.getLogger("uvicorn.error").info("Started server")
    text = lines()
    assert "GET" not in text
    assert "Started server" in text


def test_a_later_configuration_reaches_loggers_in_use(capsys):
    configure_logging("info", "json")
    logger = structlog.get_logger()
    logger.info("first")
    masker = Masker()
    masker.add(CANARY)
    configure_logging("info", "json", masker)
    logger.info("second", value=CANARY)
    assert CANARY not in capsys.readouterr().err


def test_a_response_that_is_cut_on_purpose_leaves_no_traceback_of_the_server(lines):
    server = logging.getLogger("uvicorn.error")
    server.error("Exception in ASGI application\n", exc_info=ResponseTruncated())
    assert lines() == ""
    server.error("Exception in ASGI application\n", exc_info=ConnectionAbortedError())
    assert "ConnectionAbortedError" in lines()
