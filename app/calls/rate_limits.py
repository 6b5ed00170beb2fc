"""Before a call: whether its key and its provider may make one more. Afterwards: what is left, in headers."""

from app.calls.connection import Headers
from app.calls.rate_limiter import RateLimiter, Standing
from app.catalog.plan import Plan
from app.errors import GatewayError
from app.security.principal import Principal

# An upstream's own fields of these names speak about its limits towards the gateway; a caller would take them
# for those of the server that it talks to. Where we have a limit, ours are sent and the upstream's are not.
_OURS = frozenset(
    {"ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
)
_OURS_IN_BYTES = frozenset(name.encode() for name in _OURS)


async def allowed(plan: Plan, principal: Principal, rates: RateLimiter) -> Standing:
    """Counts the call. One of the two has a limit; raises RateLimited."""
    return await rates.admit(
        principal.tenant_id,
        key_id=principal.key_id,
        key=principal.rate,
        provider_id=plan.provider_id,
        provider=plan.rate,
    )


def tell(headers: Headers, standing: Standing) -> None:
    """Writes what is left into the headers of an answer."""
    headers[:] = [pair for pair in headers if pair[0] not in _OURS_IN_BYTES]
    headers += [(name.lower().encode(), value.encode()) for name, value in standing.headers().items()]


def tell_with(error: GatewayError, standing: Standing) -> None:
    """The same for a problem."""
    kept = {name: value for name, value in error.headers.items() if name.lower() not in _OURS}
    error.headers = kept | standing.headers()
