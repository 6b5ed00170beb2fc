"""`ProtocolRecord.destructive`, by which lists select, agrees with the method of each template."""

from typing import get_args

from app.catalog.annotations import Annotations
from app.protocols.registry import PROTOCOLS
from tests.harness.cases import for_each

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def choices(record):
    """Yield templates with each value of the fields that have a fixed set of values, and each method."""
    for method in METHODS:
        yield {"http_method": method}
    for name, field in record.template.model_fields.items():
        for value in get_args(field.annotation):
            if isinstance(value, str) and name not in ("call_template_type", "http_method"):
                yield {name: value}


@for_each("name", sorted(PROTOCOLS))
def test_destructive_values_are_those_of_destructive_methods(name):
    record = PROTOCOLS[name]
    for template in choices(record):
        known = Annotations.of_template({"call_template_type": name, **template})
        selected = any(template.get(field) in values for field, values in record.destructive.items())
        decides = set(template) & set(record.destructive)
        assert selected is bool(known.destructive) or not decides, template
    assert record.destructive or not any(
        Annotations.of_template({"call_template_type": name, **template}).destructive
        for template in choices(record)
    )
