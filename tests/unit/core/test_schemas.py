"""Numbers are what JSON Schema calls them, in every request body."""

import pytest
from pydantic import ValidationError

from app.core.schemas import RateLimitInput
from app.providers.registration.input_models import CacheInput, LimitsInput
from tests.harness.cases import for_each


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (RateLimitInput, '{"requests": 5.0, "per_seconds": 60.0, "burst": 2.0}'),
        (LimitsInput, '{"concurrency": 3.0, "total": 5, "response_bytes": 1e6}'),
        (CacheInput, '{"seconds": 5, "stale_if_error": 0.5}'),
    ],
)
def test_a_number_without_a_fraction_is_an_integer(model, body: str) -> None:
    assert model.model_validate_json(body)


@for_each(
    ("model", "body"),
    [
        (RateLimitInput, '{"requests": 5.5, "per_seconds": 60}'),
        (RateLimitInput, '{"requests": true, "per_seconds": 60}'),
        (RateLimitInput, '{"requests": "5", "per_seconds": 60}'),
        (LimitsInput, '{"total": "5"}'),
        (LimitsInput, '{"idle": true}'),
        (CacheInput, '{"seconds": 5, "stale_if_error": false}'),
    ],
)
def test_text_booleans_and_fractions_are_no_integers(model, body: str) -> None:
    with pytest.raises(ValidationError):
        model.model_validate_json(body)
