"""`docs/configuration.md` and `.env.example` are what the settings say."""

from app.core.settings import Settings
from scripts.configuration import EXAMPLE, PAGE, render_example, render_page, sections


def test_configuration_page_is_up_to_date():
    assert PAGE.read_text() == render_page(), "run `make configuration`"


def test_env_example_is_up_to_date():
    assert EXAMPLE.read_text() == render_example(), "run `make configuration`"


def test_every_setting_stands_in_exactly_one_section():
    names = [name for _, section in sections() for name in section]
    assert sorted([*names, "embedded"]) == sorted(Settings.model_fields)
