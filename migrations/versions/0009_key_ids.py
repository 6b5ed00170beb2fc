"""Keys are looked up by their id alone, many at a time: an index that begins with it.

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
