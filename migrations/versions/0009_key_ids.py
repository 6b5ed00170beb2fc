"""Add an index of keys by key id, by which many are looked up at a time.

Revision: 0009, after: 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_index("keys_key_id", "keys", ["key_id"], unique=True)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("keys_key_id", table_name="keys")
