"""Count the results that deviate from a published output schema, and record when it was withdrawn.

Revision: 0018, after: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TABLES = ("overrides", "retained_overrides")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in _TABLES:
        # A worker of the release before stores its overrides without it.
        op.add_column(table, sa.Column("output_deviations", sa.Integer(), nullable=False, server_default="0"))
        op.add_column(table, sa.Column("deviations_schema", sa.String(), nullable=True))
        op.add_column(
            table, sa.Column("output_schema_withdrawn_at", sa.DateTime(timezone=True), nullable=True)
        )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in _TABLES:
        for column in ("output_schema_withdrawn_at", "deviations_schema", "output_deviations"):
            op.drop_column(table, column)
