"""Add owner, purpose, version and rotation of API keys, and an index of those that expire.

Revision: 0013, after: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    for name in ("owner", "purpose"):
        op.add_column("keys", sa.Column(name, sa.String(), nullable=False, server_default=""))
    op.add_column("keys", sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
    for name in ("rotated_from", "successor_id", "rate_limit_id"):
        op.add_column("keys", sa.Column(name, sa.String(), nullable=True))
    op.create_index(
        "keys_expiring",
        "keys",
        ["expires_at"],
        postgresql_where=sa.text("revoked_at IS NULL AND expires_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("keys_expiring", table_name="keys")
    for name in ("rate_limit_id", "successor_id", "rotated_from", "version", "purpose", "owner"):
        op.drop_column("keys", name)
