"""The harness itself: planted defects are found, and a missing Chromium is named."""

import pytest

from tests.browser.harness import chromium_program


async def test_axe_finds_planted_defects(opened):
    docs = await opened("/docs")
    await docs.page.evaluate("""() => {
      document.documentElement.removeAttribute("lang");
      document.querySelector("label[for=api-key]").remove();
      document.querySelector("h1").style.color = "#999999";
      for (const hidden of document.querySelectorAll("nav ~ main > section ~ section")) hidden.remove();
    }""")
    found = {violation["id"] for violation in await docs.axe_violations()}
    assert found >= {"html-has-lang", "label", "color-contrast"}


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_missing_chromium_is_named_and_fails_under_continuous_integration(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="chromium is not installed"):
        chromium_program()
