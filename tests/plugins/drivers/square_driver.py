"""Square: squareup, the Python SDK of Square."""

from recording import CREDENTIAL, always_differs, at, call
from square import Square

always_differs(
    "/headers/square-version",
    "The SDK asks for the version of the API that it was made for; without the header Square uses that of the application.",
)

client = Square(token=CREDENTIAL, base_url=at("https://connect.squareup.com"))

with call("square_list_locations", {}):
    client.locations.list()
with call(
    "square_search_customers",
    {"body": {"limit": 10, "query": {"filter": {"email_address": {"exact": "ada@example.com"}}}}},
):
    client.customers.search(limit=10, query={"filter": {"email_address": {"exact": "ada@example.com"}}})
with call("square_get_customer", {"customer_id": "JDKYHBWT1D4F"}):
    client.customers.get(customer_id="JDKYHBWT1D4F")
CUSTOMER = {"given_name": "Ada", "family_name": "Lovelace", "email_address": "ada@example.com"}
with call("square_create_customer", {"body": CUSTOMER}):
    client.customers.create(**CUSTOMER)
with call(
    "square_update_customer", {"customer_id": "JDKYHBWT1D4F", "body": {"note": "Prefers mail & phone"}}
):
    client.customers.update(customer_id="JDKYHBWT1D4F", note="Prefers mail & phone")
with call("square_search_catalog_items", {"body": {"text_filter": "tea", "limit": 5}}):
    client.catalog.search_items(text_filter="tea", limit=5)
with call("square_get_catalog_object", {"object_id": "W62UWFY35CWM", "include_related_objects": True}):
    client.catalog.object.get(object_id="W62UWFY35CWM", include_related_objects=True)
COUNTS = {"catalog_object_ids": ["W62UWFY35CWM"], "location_ids": ["L1"]}
with call("square_get_inventory_counts", {"body": COUNTS}):
    client.inventory.batch_get_counts(**COUNTS)
with call("square_search_orders", {"body": {"location_ids": ["L1"], "limit": 3}}):
    client.orders.search(location_ids=["L1"], limit=3)
ORDER = {
    "idempotency_key": "8193148c",
    "order": {"location_id": "L1", "line_items": [{"name": "Tea", "quantity": "1"}]},
}
with call("square_create_order", {"body": ORDER}):
    client.orders.create(**ORDER)
with call("square_list_payments", {"location_id": "L1", "begin_time": "2026-11-01T00:00:00Z", "limit": 10}):
    client.payments.list(location_id="L1", begin_time="2026-11-01T00:00:00Z", limit=10)
with call("square_get_payment", {"payment_id": "bP9mAsEMYPUGjjGNaNO5ZDVyLhSZY"}):
    client.payments.get(payment_id="bP9mAsEMYPUGjjGNaNO5ZDVyLhSZY")
REFUND = {
    "idempotency_key": "9b7f2dcf",
    "payment_id": "bP9mAs",
    "amount_money": {"amount": 1000, "currency": "USD"},
    "reason": "Damaged",
}
with call("square_refund_payment", {"body": REFUND}):
    client.refunds.refund_payment(**REFUND)
with call("square_list_invoices", {"location_id": "L1", "limit": 20}):
    client.invoices.list(location_id="L1", limit=20)
with call(
    "square_publish_invoice",
    {"invoice_id": "inv:0-ChCHu2", "body": {"version": 1, "idempotency_key": "32da42d0"}},
):
    client.invoices.publish(invoice_id="inv:0-ChCHu2", version=1, idempotency_key="32da42d0")
