"""Error messages where the corpus cannot be downloaded."""

from pathlib import Path

import pytest

from benchmarks.corpus.download import CorpusUnavailableError, corpus


def test_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusUnavailableError, match="npm is not installed"):
        corpus(tmp_path / "corpus")


def test_with_an_npm_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusUnavailableError, match="could not fetch"):
        corpus(tmp_path / "corpus")


def test_a_complete_download_is_not_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "package" / "api"
    folder.mkdir(parents=True)
    (folder / "b.json").touch()
    (folder / "a.json").touch()
    (tmp_path / "complete").touch()
    assert [path.name for path in corpus(tmp_path)] == ["a.json", "b.json"]
