"""The recorded figures, and the gates that figures must pass."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.search.measurement import BFCL, QualityFigures

WORDS: Final = "words"
VECTORS: Final = "words+vectors"
BEFORE: Final = "before"
"""The ranking of version 0.2.0, before there were two fields of words."""

FILE: Final = Path(__file__).parent / "figures.json"
TARGETS: Final = {
    WORDS: {"recall_5": 0.905, "hit_1": 0.76},
    VECTORS: {"recall_5": 0.915, "hit_1": 0.76},
}
"""What each ranking must reach on BFCL."""
_TOLERANCES: Final = {WORDS: 0.0, VECTORS: 0.005}
"""How much less than recorded a figure may be: 8-bit models differ between processors, words do not."""
_COMPARED: Final = ("recall_5", "hit_1", "mrr")


def recorded() -> dict[str, Any]:
    """Return the recorded figures: {"quality": {ranking: QualityFigures}, "front": Points, "cost": Costs}."""
    found: dict[str, Any] = orjson.loads(FILE.read_bytes())
    return found


def record(figures: dict[str, Any]) -> None:
    """Write the figures; of those that were recorded, the ones of the same members are replaced."""
    known = recorded() if FILE.exists() else {}
    quality = known.get("quality", {}) | figures["quality"]
    FILE.write_bytes(orjson.dumps(known | figures | {"quality": quality}, option=orjson.OPT_INDENT_2) + b"\n")


def missed_targets(ranking: str, quality: QualityFigures) -> list[str]:
    """Return a sentence for each target on BFCL that is missed."""
    found = quality[BFCL]["all"]
    return [
        f"{ranking}: {name} on {BFCL} is {found[name]}, less than the target {target}"
        for name, target in TARGETS[ranking].items()
        if found[name] < target
    ]


def losses(ranking: str, quality: QualityFigures, known: Mapping[str, QualityFigures]) -> list[str]:
    """Return a sentence for each figure of a whole set that is less than the recorded one allows.

    `known` has the recorded figures by ranking.
    """
    if ranking not in known:
        return [f"{ranking}: no figures are recorded: make search ARGS=--record"]
    sentences = []
    for one, found in quality.items():
        before = known[ranking][one]["all"]
        sentences += [
            f"{ranking}: {name} on {one} is {found['all'][name]}, recorded is {before[name]}"
            for name in _COMPARED
            if found["all"][name] < before[name] - _TOLERANCES[ranking]
        ]
    return sentences
