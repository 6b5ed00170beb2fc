"""Add approvals, the requirement of approval to overrides, and an index of audit events by their object.

The pending revisions become approvals with their ids, for 30 days from now. Who requested them is in the
audit event of the refresh; without one it is `unknown`.

Revision: 0014, after: 0013
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_PENDING = sa.text(
    "SELECT revisions.id, revisions.tenant_id, revisions.provider_id, revisions.created_at, providers.name,"
    " providers.slots, revisions.report->'operations' AS operations,"
    " revisions.pending_definitions->'slots' AS new_slots,"
    " coalesce((SELECT actor FROM events WHERE object_type = 'provider' AND action = 'refreshed'"
    "  AND object_name = providers.name ORDER BY at DESC LIMIT 1), 'unknown') AS actor"
    " FROM revisions JOIN providers ON providers.id = revisions.provider_id"
    " WHERE revisions.state = 'pending' AND revisions.pending_definitions IS NOT NULL"
)
_INSERT = sa.text(
    "INSERT INTO approvals (id, tenant_id, kind, state, subject_type, subject_name, provider, provider_id,"
    " requested_by, requested_at, expires_at, comment, detail)"
    " VALUES (:id, :tenant_id, :kind, 'pending', 'provider', :name, :name, :provider_id, :actor, :created_at,"
    " now() + interval '30 days', '', cast(:detail as jsonb))"
)
_MAX_OPERATIONS = 1_000


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    for table in ("overrides", "retained_overrides"):
        op.add_column(table, sa.Column("requires_approval", sa.Boolean(), nullable=True))
    op.create_index("events_object", "events", ["tenant_id", "object_type", "object_name"])
    op.create_table(
        "approvals",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("subject_type", sa.String(), nullable=False),
        sa.Column("subject_name", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("provider_id", sa.Uuid(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("comment", sa.String(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("call_id", sa.Uuid(), nullable=True),
        sa.Column("sealed_request", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_arguments", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_result", sa.LargeBinary(), nullable=True),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=True),
        sa.Column("idempotency_digest", sa.LargeBinary(), nullable=True),
        sa.Column("content_digest", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "requested_by", "idempotency_digest"),
    )
    op.create_index("approvals_requested", "approvals", ["tenant_id", "requested_at", "id"])
    undecided = sa.text("state IN ('pending', 'approved')")
    op.create_index("approvals_undecided", "approvals", ["expires_at"], postgresql_where=undecided)
    pending = sa.text("state = 'pending'")
    op.create_index("approvals_provider", "approvals", ["provider_id"], postgresql_where=pending)
    connection = op.get_bind()
    for row in connection.execute(_PENDING).mappings().all():
        operations = row["operations"] or []
        detail = {"operations": operations[:_MAX_OPERATIONS], "count": len(operations)}
        values = {
            name: row[name] for name in ("id", "tenant_id", "name", "provider_id", "actor", "created_at")
        }
        kind = _kind(operations, row["slots"] or [], row["new_slots"] or [])
        connection.execute(_INSERT, {**values, "kind": kind, "detail": json.dumps(detail)})


def _kind(operations: list[dict[str, Any]], old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
    """Return the kind of the approval of these changes, as the release of this migration chooses it."""
    differences = [
        difference
        for operation in operations
        for difference in operation.get("differences", ())
        if difference.get("breaking") or operation.get("change") == "added"
    ]
    before = {slot["slot"]: slot for slot in old}
    pairs = [(before[slot["slot"]], slot) for slot in new if slot["slot"] in before]
    moves_tokens = any(one.get("token_url") != other.get("token_url") for one, other in pairs)
    if moves_tokens or any(one.get("aspect") == "server" for one in differences):
        return "origin"
    members = ("kind", "location", "name")
    if any(one.get(member) != other.get(member) for one, other in pairs for member in members):
        return "credential"
    return "definition"


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("approvals")
    op.drop_index("events_object", table_name="events")
    for table in ("retained_overrides", "overrides"):
        op.drop_column(table, "requires_approval")
