"""Add the allowed origins of secret variables that all providers share.

Those that are in use get the origins of the credentials that name them, so that their calls go on; the others
get the origins of their first use.

Revision: 0028, after: 0027
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

# A credential of which a token is requested is sent to the origin of its token URL. A name in a credential is
# that of the variable, or without UTCP's namespace of the provider (`my__gw_KEY` for `KEY` of `my_gw`).
_SET_ORIGINS = """
UPDATE variables SET allowed_origins = used.origins
FROM (
    SELECT shared.id, array_agg(DISTINCT sent.origin) AS origins
    FROM variables shared
    JOIN credentials ON credentials.tenant_id = shared.tenant_id
    JOIN providers ON providers.id = credentials.provider_id
    CROSS JOIN LATERAL (
        SELECT unnest(credentials.allowed_origins) AS origin
        WHERE credentials.kind NOT IN ('oauth2', 'google_service_account')
        UNION ALL
        SELECT regexp_replace(
            substring(lower(credentials.public ->> 'token_url') from '^https?://[^/?#]+'),
            '^(https://.+)[:]443$|^(http://.+)[:]80$', '\\1\\2'
        )
        WHERE credentials.kind IN ('oauth2', 'google_service_account')
    ) sent
    WHERE shared.provider_id IS NULL AND shared.secret AND sent.origin IS NOT NULL
    AND EXISTS (
        SELECT 1 FROM unnest(credentials.variable_names) AS named(name)
        WHERE shared.name IN (
            named.name,
            replace(regexp_replace(providers.name, '[^A-Za-z0-9_]', '_', 'g'), '_', '__') || '_' || named.name
        )
        AND NOT EXISTS (
            SELECT 1 FROM variables own
            WHERE own.provider_id = providers.id AND own.name IN (named.name, shared.name)
        )
    )
    GROUP BY shared.id
) used
WHERE variables.id = used.id
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("variables", sa.Column("allowed_origins", postgresql.ARRAY(sa.Text()), nullable=True))
    op.execute(_SET_ORIGINS)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("variables", "allowed_origins")
