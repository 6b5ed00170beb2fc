"""The dashboard, the alerts and docs/operations.md name metrics that exist, with labels that they have."""

import json
import re
from pathlib import Path

import yaml

from app.core.settings import Settings
from app.core.telemetry.exposition import expose
from app.core.telemetry.families import list_families
from tests.harness.cases import for_each

ROOT = Path(__file__).parents[4]
DASHBOARD = json.loads((ROOT / "deploy/grafana/utcp-gateway.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
OPERATIONS = (ROOT / "docs/operations.md").read_text()
# Added by Prometheus itself when it scrapes.
_OF_PROMETHEUS = {"job", "instance", "le"}
_NAME = re.compile(r"\b(?:utcp_gateway|process)_[a-z_]+")


def _shown() -> dict[str, set[str]]:
    """The names of all series that /metrics can show, with their labels."""
    text = expose([]).decode()
    shown: dict[str, set[str]] = {}
    for known in list_families():
        name = f"{known.name}_total" if known.kind == "counter" else known.name
        assert f"# HELP {name} " in text
        for suffix in ("_bucket", "_count", "_sum") if known.kind == "histogram" else ("",):
            shown[name + suffix] = set(known.labels)
    return shown


SHOWN = _shown()


def _expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    return panels + [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]


@for_each("expression", _expressions())
def test_an_expression_is_of_metrics_and_labels_that_exist(expression):
    names = list(_NAME.findall(expression))
    assert names
    for name in names:
        assert name in SHOWN, name
    known = set.union(*(SHOWN[name] for name in names)) | _OF_PROMETHEUS
    used = set(re.findall(r"([a-z_]+)(?:=~|!~|!=|=)\"", expression))
    for by in re.findall(r"by \(([^)]*)\)", expression):
        used |= {label.strip() for label in by.split(",")}
    assert used <= known
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


def test_every_metric_is_explained():
    families_shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in SHOWN}
    rows = "\n".join(line.split("|")[1] for line in OPERATIONS.splitlines() if line.startswith("| `"))
    explained = set(_NAME.findall(rows))
    assert families_shown - explained == set(), "not explained"
    assert explained - families_shown == set(), "explained, but not there"


def test_labels_are_those_that_are_explained():
    for line in OPERATIONS.splitlines():
        if line.startswith(("| `utcp_gateway_", "| `process_")):
            names, labels = (
                _NAME.findall(line.split("|")[1]),
                set(re.findall("`([a-z]+)`", line.split("|")[2])),
            )
            found = [SHOWN.get(name, SHOWN.get(f"{name}_bucket", set())) - {"le"} for name in names]
            assert set.union(*found) == labels, line


def test_the_dashboard_can_be_imported():
    assert DASHBOARD["schemaVersion"] >= 36
    assert "id" not in DASHBOARD
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["targets"]
    titles = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert {"Requests", "Calls by provider", "Saturation"} <= set(titles)
    used = set(re.findall(r"\$([a-z]+)\b", json.dumps(DASHBOARD)))
    assert used <= set(variables)


def test_alerts_are_well_formed():
    names = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]
    assert len(names) == len(set(names))
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"]
            assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
            assert re.search(r"[<>=]=?\s*[0-9.]+$", rule["expr"])


def test_settings_that_are_named_exist_or_are_opentelemetrys():
    for text in (OPERATIONS, json.dumps(ALERTS)):
        for name in re.findall(
            r"\b(?:OTEL_(?:EXPORTER|TRACES|SERVICE|SDK)|ORIGIN|AUTH|FEED)_[A-Z_]+\b", text
        ):
            known = {field.upper() for field in Settings.model_fields} | {"OTEL_EXPORTER_OTLP_TIMEOUT"}
            assert name in known, name
