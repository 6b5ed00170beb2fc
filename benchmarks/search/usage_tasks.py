"""A pool of tools, and tasks with sentences.

The tools are those of a shop's back office in the words of an API: five for each resource, whose texts differ
in the verb. The sentences of a task are six ways in which people say it. About half of them name the
resource, the others what it is about. (Sentences without any word of the tool's texts were tried first: the
tool is then not shown, so that it is not called, and nothing is learned.)
"""

from typing import Final, NamedTuple

_VERBS: Final = {
    "list": ("List {plural}", "Returns a list of {plural}, newest first. Results are paginated."),
    "get": ("Retrieve a {one}", "Retrieves the details of an existing {one} by its id."),
    "create": ("Create a {one}", "Creates a new {one} object. {about}"),
    "update": (
        "Update a {one}",
        "Updates the specified {one} by setting the values of the parameters passed.",
    ),
    "delete": ("Delete a {one}", "Permanently deletes a {one}. It cannot be undone."),
}
_RESOURCES: Final = {
    "refund": "Funds are returned to the card that was charged.",
    "charge": "The payment method of the account is debited.",
    "invoice": "A statement of amounts owed by an account.",
    "subscription": "The account is billed on a recurring basis.",
    "coupon": "A percent-off or amount-off that is applied at checkout.",
    "customer": "An account that makes purchases.",
    "dispute": "A payment was contested with the card issuer.",
    "payout": "Available balance is sent to a bank account.",
    "product": "An item of the catalogue.",
    "price": "The unit cost of a catalogue item.",
    "warehouse": "A fulfilment location that holds stock.",
    "shipment": "A parcel that leaves a fulfilment location.",
    "return_label": "A prepaid shipping document for items sent back.",
    "ticket": "A support conversation.",
    "agent_shift": "A working period of a support employee.",
    "campaign": "A bulk message to an audience.",
    "audience": "A segment of contacts.",
    "webhook": "An endpoint that is notified of events.",
    "api_key": "A credential of an integration.",
    "report": "A scheduled export of figures.",
    "tax_rate": "A percentage that is added by jurisdiction.",
    "review": "A rating that was left by a purchaser.",
    "gift_card": "A prepaid balance with a code.",
    "order": "A purchase with line items.",
}


class Task(NamedTuple):
    """What users want: the name of the tool that does it, and sentences that say so."""

    tool: str
    sentences: tuple[str, ...]


def tools() -> dict[str, str]:
    """Return the description of each tool by its name."""
    found = {}
    for resource, about in _RESOURCES.items():
        one = resource.replace("_", " ")
        for verb, (summary, text) in _VERBS.items():
            plural = one if verb != "list" else f"{one[:-1]}ies" if one.endswith("ry") else f"{one}s"
            words = {"one": one, "plural": plural, "about": about}
            found[f"{verb}_{resource}"] = f"{summary.format(**words)}. {text.format(**words)}"
    return found


TASKS: Final = (
    Task("create_refund", (
        "refund Anna for the broken lamp", "give the customer her money back",
        "refund the charge of order 1812",
        "the funds must be returned to her card", "refund for the cancelled order",
        "return the money to the customer",
    )),
    Task("list_invoice", (
        "which invoices are still open", "what does the account of Acme owe", "open invoices of Acme",
        "all amounts owed this month", "show the open invoices", "what does Acme still owe",
    )),
    Task("create_coupon", (
        "coupon for ten percent off", "discount at checkout for Black Friday", "set up the coupon SPRING",
        "ten percent off for loyal customers", "new coupon for Friday", "percent discount for loyal shoppers",
    )),
    Task("delete_subscription", (
        "cancel the subscription of Bob", "Bob must not be billed any more", "end his subscription",
        "stop the recurring plan of Bob", "stop the subscription at once",
        "end the plan that is billed monthly",
    )),
    Task("create_subscription", (
        "sign Bob up for a subscription", "bill Eve on a recurring basis", "start a subscription for Eve",
        "recurring plan for Bob", "sign Eve up for the premium subscription", "start to bill Bob each month",
    )),
    Task("list_dispute", (
        "any disputes this week", "which payments were contested with the bank", "show open disputes",
        "payments that the card issuer contested", "disputes that need evidence",
        "contested payments of this week",
    )),
    Task("create_payout", (
        "payout of our earnings", "send the balance to the bank account", "start a payout today",
        "transfer what is available to our bank", "payout to the bank", "transfer the balance to our account",
    )),
    Task("update_price", (
        "raise the price of the lamp", "the lamp should cost 30 euros", "lower the price of the chair",
        "set another unit cost", "change the price to 30 euros", "another cost for the lamp",
    )),
    Task("create_shipment", (
        "shipment for order 1812", "send the parcel to Anna", "dispatch a shipment today",
        "a parcel must leave the warehouse", "send a shipment to Eve", "dispatch the parcel of Eve",
    )),
    Task("get_shipment", (
        "track the shipment of Anna", "where is my parcel", "has the shipment arrived",
        "where is the parcel of Eve now", "where is my shipment", "track the parcel",
    )),
    Task("create_return_label", (
        "return label for Anna", "Anna wants to send the lamp back", "prepaid label for sent back goods",
        "shipping document for a return", "label for the return of the lamp",
        "prepaid document to send goods back",
    )),
    Task("list_ticket", (
        "open tickets of the helpdesk", "support conversations that wait", "unanswered tickets",
        "which conversations are open", "tickets that nobody answered",
        "conversations of support that are open",
    )),
    Task("update_ticket", (
        "answer the ticket of Anna", "close the support conversation", "set the ticket to solved",
        "reply in the conversation with Eve", "reply to the ticket", "mark the conversation as solved",
    )),
    Task("create_agent_shift", (
        "plan a shift for Zoe on Monday", "working period of the support employee Zoe",
        "put Zoe on the night shift",
        "schedule an employee for Friday", "shift on Friday for Zoe", "schedule a working period",
    )),
    Task("create_campaign", (
        "campaign about the sale", "send a message to all contacts", "start a campaign for the lamp",
        "bulk message about the sale", "new campaign for everybody", "message to the whole audience",
    )),
    Task("list_review", (
        "reviews of the lamp", "what rating did purchasers leave", "latest reviews",
        "ratings of our lamps", "show reviews of the chair", "rating that purchasers left for the chair",
    )),
    Task("get_gift_card", (
        "what is left on the gift card XK-12", "prepaid balance of the code", "is the gift card still valid",
        "balance of the code XK-12", "credit of the gift card", "how much balance has the code",
    )),
    Task("list_warehouse", (
        "warehouses in Spain", "which locations hold stock", "our warehouses",
        "fulfilment locations with room", "which warehouses have room", "locations with stock in Spain",
    )),
    Task("create_webhook", (
        "webhook for new orders", "our server must be notified of events", "add a webhook to our URL",
        "notify an endpoint of events", "webhook when somebody buys", "notify our server",
    )),
    Task("delete_api_key", (
        "revoke the leaked API key", "lock the credential of the old integration", "remove an API key",
        "the credential was leaked", "revoke the key of the integration", "lock the leaked credential",
    )),
    Task("create_report", (
        "report of sales every Monday", "scheduled export of our figures", "weekly report by mail",
        "export the figures each month", "new report of revenue", "monthly export of sales figures",
    )),
    Task("get_customer", (
        "look up the customer Anna", "details of the account of Anna", "who is the customer with this mail",
        "address of an account", "address of the customer", "look up an account",
    )),
    Task("update_product", (
        "fix the text of the product", "change the picture of an item", "new picture for the product lamp",
        "the catalogue item needs a better text", "change the product's text",
        "better picture for the catalogue",
    )),
    Task("list_order", (
        "orders of Eve", "purchases with line items of today", "latest orders",
        "what purchase did Eve make in May", "show today's orders", "purchases of Eve",
    )),
)  # fmt: skip
