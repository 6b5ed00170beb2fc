"""Add to providers the API keys that may connect as the executor of their name.

Revision: 0029, after: 0028
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("providers", sa.Column("executor_owner", sa.String(), nullable=True))
    # A worker of the release before stores its providers without it.
    texts = postgresql.ARRAY(sa.Text())
    op.add_column("providers", sa.Column("executor_keys", texts, nullable=False, server_default="{}"))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("providers", "executor_keys")
    op.drop_column("providers", "executor_owner")
