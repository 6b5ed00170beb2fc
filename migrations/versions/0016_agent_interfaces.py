"""Add toolsets, names of tools for agents, annotations of tools, and the interface of each call.

Revision: 0016, after: 0015
"""

import base64
import hashlib

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_MAX_LENGTH = 45
_LONG = sa.text(
    "SELECT id, tenant_id, name, alias FROM tools WHERE length(alias) > :limit ORDER BY tenant_id, name"
)
_TAKEN = sa.text("SELECT tenant_id, alias FROM tools")
_COPY = sa.text("UPDATE tools SET agent_name = alias WHERE length(alias) <= :limit")
_SET = sa.text("UPDATE tools SET agent_name = :agent_name WHERE id = :id")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    # A worker of the release before stores its calls without it; they came by the only interface it had.
    op.add_column("calls", sa.Column("interface", sa.String(), nullable=False, server_default="rest"))
    for table in ("overrides", "retained_overrides"):
        op.add_column(table, sa.Column("annotations", postgresql.JSONB(), nullable=True))
        op.add_column(table, sa.Column("publish_output_schema", sa.Boolean(), nullable=True))
        op.add_column(table, sa.Column("response_options", postgresql.JSONB(), nullable=True))
    op.add_column("keys", sa.Column("toolsets", postgresql.ARRAY(sa.Text()), nullable=True))
    op.add_column("keys", sa.Column("argument_repair", sa.String(), nullable=True))
    op.create_table(
        "toolsets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("definition", postgresql.JSONB(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "name"),
    )
    op.add_column("tools", sa.Column("agent_name", sa.String(), nullable=True))
    _fill_agent_names(op.get_bind())
    op.create_unique_constraint("tools_tenant_id_agent_name_key", "tools", ["tenant_id", "agent_name"])


def _fill_agent_names(connection: sa.Connection) -> None:
    """Set the names of existing tools: the alias, or its beginning and a hash of the canonical name."""
    taken = {(row.tenant_id, row.alias) for row in connection.execute(_TAKEN)}
    connection.execute(_COPY, {"limit": _MAX_LENGTH})
    rows = []
    for row in connection.execute(_LONG, {"limit": _MAX_LENGTH}):
        count = 0
        while (row.tenant_id, name := _shortened(row.name, row.alias, count)) in taken:
            count += 1
        taken.add((row.tenant_id, name))
        rows.append({"id": row.id, "agent_name": name})
    if rows:
        connection.execute(_SET, rows)


def _shortened(name: str, alias: str, count: int) -> str:
    """Return the name of `app.utcp.names.agent_name_for`, as it was when this revision was written."""
    seed = name if count == 0 else f"{name}\n{count}"
    digest = base64.b32encode(hashlib.sha256(seed.encode()).digest())[:6].decode().lower()
    return f"{alias[: _MAX_LENGTH - 7].rstrip('_')}_{digest}"


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_constraint("tools_tenant_id_agent_name_key", "tools")
    op.drop_column("tools", "agent_name")
    op.drop_table("toolsets")
    for column in ("argument_repair", "toolsets"):
        op.drop_column("keys", column)
    for table in ("overrides", "retained_overrides"):
        for column in ("response_options", "publish_output_schema", "annotations"):
            op.drop_column(table, column)
    op.drop_column("calls", "interface")
