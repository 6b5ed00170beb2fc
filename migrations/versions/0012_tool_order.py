"""Add indexes for lists of tools by time, and for deprecated ones.

Revision: 0012, after: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.create_index("tools_created", "tools", ["tenant_id", "created_at", "id"])
    op.create_index("tools_updated", "tools", ["tenant_id", "updated_at", "id"])
    op.create_index(
        "tools_deprecated", "tools", ["tenant_id", "name"], postgresql_where=sa.text("deprecated")
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in ("tools_deprecated", "tools_updated", "tools_created"):
        op.drop_index(name, table_name="tools")
