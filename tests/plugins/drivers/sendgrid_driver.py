"""SendGrid: sendgrid, the Python library of Twilio SendGrid."""

from typing import Any

from recording import CREDENTIAL, at, call
from sendgrid import SendGridAPIClient

own = SendGridAPIClient(CREDENTIAL)
client: Any = SendGridAPIClient(CREDENTIAL, host=at(own.host)).client

MAIL = {
    "personalizations": [{"to": [{"email": "ada@example.com"}]}],
    "from": {"email": "team@example.com", "name": "Team"},
    "subject": "Welcome",
    "content": [{"type": "text/plain", "value": "Hello & welcome"}],
}
with call("sendgrid_send_email", {"body": MAIL}):
    client.mail.send.post(request_body=MAIL)
with call("sendgrid_list_templates", {"generations": "legacy,dynamic", "page_size": 18}):
    client.templates.get(query_params={"generations": "legacy,dynamic", "page_size": 18})
with call("sendgrid_get_template", {"template_id": "d-1234"}):
    client.templates._("d-1234").get()
with call(
    "sendgrid_upsert_contacts", {"body": {"contacts": [{"email": "ada@example.com", "first_name": "Ada"}]}}
):
    client.marketing.contacts.put(
        request_body={"contacts": [{"email": "ada@example.com", "first_name": "Ada"}]}
    )
with call("sendgrid_search_contacts", {"body": {"query": "email LIKE 'ada%'"}}):
    client.marketing.contacts.search.post(request_body={"query": "email LIKE 'ada%'"})
with call("sendgrid_find_contacts_by_email", {"body": {"emails": ["ada@example.com"]}}):
    client.marketing.contacts.search.emails.post(request_body={"emails": ["ada@example.com"]})
with call("sendgrid_list_contact_lists", {"page_size": 100}):
    client.marketing.lists.get(query_params={"page_size": 100})
with call("sendgrid_create_contact_list", {"body": {"name": "Newsletter"}}):
    client.marketing.lists.post(request_body={"name": "Newsletter"})
with call(
    "sendgrid_get_stats", {"start_date": "2026-11-01", "end_date": "2026-11-24", "aggregated_by": "week"}
):
    client.stats.get(
        query_params={"start_date": "2026-11-01", "end_date": "2026-11-24", "aggregated_by": "week"}
    )
with call("sendgrid_list_bounces", {"start_time": 1700000000, "end_time": 1700086400}):
    client.suppression.bounces.get(query_params={"start_time": 1700000000, "end_time": 1700086400})
with call("sendgrid_list_suppression_groups", {}):
    client.asm.groups.get()
with call("sendgrid_list_verified_senders", {"limit": 10}):
    client.verified_senders.get(query_params={"limit": 10})
