"""Content negotiation by the header Accept (RFC 9110 section 12.5.1)."""

from collections.abc import Sequence


def choose_preferred(accept: str, offers: Sequence[str]) -> str:
    """Return the offered media type with the highest weight; the first offer where several or none match."""
    weights = {}
    for item in accept.lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        weights[media_range] = _read_weight(parameters)
    return max(offers, key=lambda offer: _get_weight(offer, weights))


def _get_weight(offer: str, weights: dict[str, float]) -> float:
    """Return the weight of the most specific media range that includes the offer; 0 for none."""
    for media_range in (offer, f"{offer.partition('/')[0]}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0


def _read_weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
