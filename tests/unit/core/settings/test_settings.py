"""What the settings take, reject and derive."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.core.settings import Settings


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_lists_are_words_between_commas_or_blanks() -> None:
    settings = Settings(allow_networks="10.0.0.0/8, 127.0.0.0/8:80", _env_file=None)
    assert settings.allow_networks == ("10.0.0.0/8", "127.0.0.0/8:80")


def test_a_wrong_value_is_rejected_without_being_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(public_base_url="canary-value", _env_file=None)
    assert "canary-value" not in str(caught.value)


def test_there_is_no_default_sealing_key() -> None:
    with pytest.raises(ValueError, match="SEALING_KEYS"):
        Settings(sealing_keys=None, sealing_keys_file=None, _env_file=None).read_key_ring()


def test_two_sources_of_the_key_ring_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="not both"):
        Settings(sealing_keys="a:b", sealing_keys_file=tmp_path / "ring", _env_file=None)


def test_the_removed_call_log_mode_names_the_one_that_takes_its_place() -> None:
    with pytest.raises(ValidationError, match=r"the mode spool was removed: set strict.*spool folder"):
        Settings(call_log_mode="spool", _env_file=None)


@pytest.mark.parametrize(
    ("text", "requests"), [("10/60", 10), ("300/60:100", 300), ("off", None), ("OFF", None)]
)
def test_the_limit_of_keys_that_are_not_valid_can_be_turned_off(text: str, requests: int | None) -> None:
    limit = Settings(key_failure_rate_limit=text, _env_file=None).get_key_failure_limit()
    assert (limit and limit.requests) == requests


def test_a_limit_of_keys_that_nobody_can_read_is_rejected() -> None:
    with pytest.raises(ValidationError):
        Settings(key_failure_rate_limit="many", _env_file=None)
