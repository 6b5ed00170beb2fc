"""Stripe: stripe, the Python library of Stripe."""

import stripe
from recording import CREDENTIAL, always_differs, at, call

always_differs(
    "/headers/stripe-version",
    "The SDK asks for the version of the API that it was made for; without the header Stripe uses that of the account.",
)
always_differs(
    "/headers/idempotency-key",
    "The SDK makes a key up for its own retries; the gateway sends the `Idempotency-Key` of the client, where there is one.",
)

client = stripe.StripeClient(
    CREDENTIAL, base_addresses={"api": at("https://api.stripe.com")}, max_network_retries=0
)
v1 = client.v1

with call("stripe_get_balance", {}):
    v1.balance.retrieve()
with call("stripe_list_customers", {"email": "ada+1@example.com", "limit": 3}):
    v1.customers.list({"email": "ada+1@example.com", "limit": 3})
with call("stripe_search_customers", {"query": "name:'Ada' AND metadata['plan']:'pro'", "limit": 10}):
    v1.customers.search({"query": "name:'Ada' AND metadata['plan']:'pro'", "limit": 10})
with call("stripe_get_customer", {"customer": "cus_123"}):
    v1.customers.retrieve("cus_123")
CUSTOMER = {
    "email": "ada@example.com",
    "name": "Ada Lovelace",
    "address": {"line1": "1 Main St", "country": "GB"},
    "metadata": {"plan": "pro"},
}
with call("stripe_create_customer", {"body": CUSTOMER}):
    v1.customers.create(CUSTOMER)
with call("stripe_update_customer", {"customer": "cus_123", "body": {"description": "VIP & friend"}}):
    v1.customers.update("cus_123", {"description": "VIP & friend"})
with call("stripe_list_products", {"active": True, "limit": 5}):
    v1.products.list({"active": True, "limit": 5})
with call("stripe_create_product", {"body": {"name": "Pro plan", "metadata": {"sku": "p-1"}}}):
    v1.products.create({"name": "Pro plan", "metadata": {"sku": "p-1"}})
with call("stripe_list_prices", {"product": "prod_1", "active": True}):
    v1.prices.list({"product": "prod_1", "active": True})
PRICE = {"currency": "eur", "unit_amount": 1200, "product": "prod_1", "recurring": {"interval": "month"}}
with call("stripe_create_price", {"body": PRICE}):
    v1.prices.create(PRICE)
LINK = {"line_items": [{"price": "price_1", "quantity": 2}, {"price": "price_2", "quantity": 1}]}
with call("stripe_create_payment_link", {"body": LINK}):
    v1.payment_links.create(LINK)
with call("stripe_list_invoices", {"customer": "cus_123", "status": "open"}):
    v1.invoices.list({"customer": "cus_123", "status": "open"})
INVOICE = {"customer": "cus_123", "collection_method": "send_invoice", "days_until_due": 14}
with call("stripe_create_invoice", {"body": INVOICE}):
    v1.invoices.create(INVOICE)
ITEM = {
    "customer": "cus_123",
    "amount": 2500,
    "currency": "eur",
    "invoice": "in_1",
    "description": "Consulting",
}
with call("stripe_add_invoice_item", {"body": ITEM}):
    v1.invoice_items.create(ITEM)
with call("stripe_finalize_invoice", {"invoice": "in_1"}):
    v1.invoices.finalize_invoice("in_1")
with call("stripe_list_payment_intents", {"customer": "cus_123", "created": {"gte": 1700000000}}):
    v1.payment_intents.list({"customer": "cus_123", "created": {"gte": 1700000000}})
with call("stripe_list_subscriptions", {"customer": "cus_123", "status": "active"}):
    v1.subscriptions.list({"customer": "cus_123", "status": "active"})
with call(
    "stripe_refund_payment",
    {"body": {"payment_intent": "pi_1", "amount": 500, "reason": "requested_by_customer"}},
):
    v1.refunds.create({"payment_intent": "pi_1", "amount": 500, "reason": "requested_by_customer"})
