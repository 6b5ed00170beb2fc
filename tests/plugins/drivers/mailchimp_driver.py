"""Mailchimp: mailchimp-marketing, the Python library of Mailchimp."""

import mailchimp_marketing
from recording import CREDENTIAL, at, call

client = mailchimp_marketing.Client()
client.set_config({"api_key": CREDENTIAL, "server": "us6"})
client.api_client.host = at("https://us6.api.mailchimp.com/3.0")
lists, campaigns, reports = client.lists, client.campaigns, client.reports
HASH = "62eeb292278cc15f5817cb78f7790b08"

with call("mailchimp_list_audiences", {"count": 10, "fields": ["lists.id", "lists.name"]}):
    lists.get_all_lists(count=10, fields=["lists.id", "lists.name"])
with call("mailchimp_get_audience", {"list_id": "057b"}):
    lists.get_list("057b")
with call("mailchimp_list_members", {"list_id": "057b", "status": "subscribed", "count": 100, "offset": 200}):
    lists.get_list_members_info("057b", status="subscribed", count=100, offset=200)
with call("mailchimp_search_members", {"query": "ada@example.com", "list_id": "057b"}):
    client.searchMembers.search("ada@example.com", list_id="057b")
with call("mailchimp_get_member", {"list_id": "057b", "subscriber_hash": HASH}):
    lists.get_list_member("057b", HASH)
MEMBER = {"email_address": "ada@example.com", "status": "pending", "merge_fields": {"FNAME": "Ada"}}
with call("mailchimp_add_member", {"list_id": "057b", "body": MEMBER}):
    lists.add_list_member("057b", MEMBER)
with call(
    "mailchimp_update_member",
    {"list_id": "057b", "subscriber_hash": HASH, "body": {"status": "unsubscribed"}},
):
    lists.update_list_member("057b", HASH, {"status": "unsubscribed"})
TAGS = {"tags": [{"name": "VIP & friends", "status": "active"}]}
with call("mailchimp_tag_member", {"list_id": "057b", "subscriber_hash": HASH, "body": TAGS}):
    lists.update_list_member_tags("057b", HASH, TAGS)
with call("mailchimp_list_segments", {"list_id": "057b", "count": 20}):
    lists.list_segments("057b", count=20)
with call(
    "mailchimp_list_campaigns", {"status": "sent", "count": 5, "sort_field": "send_time", "sort_dir": "DESC"}
):
    campaigns.list(status="sent", count=5, sort_field="send_time", sort_dir="DESC")
with call("mailchimp_get_campaign", {"campaign_id": "42694e9e57"}):
    campaigns.get("42694e9e57")
CAMPAIGN = {
    "type": "regular",
    "recipients": {"list_id": "057b"},
    "settings": {"subject_line": "News", "from_name": "Team", "reply_to": "team@example.com"},
}
with call("mailchimp_create_campaign", {"body": CAMPAIGN}):
    campaigns.create(CAMPAIGN)
with call(
    "mailchimp_set_campaign_content",
    {"campaign_id": "42694e9e57", "body": {"html": "<p>Hello & welcome</p>"}},
):
    campaigns.set_content("42694e9e57", {"html": "<p>Hello & welcome</p>"})
with call(
    "mailchimp_schedule_campaign",
    {"campaign_id": "42694e9e57", "body": {"schedule_time": "2026-12-01T09:00:00+00:00"}},
):
    campaigns.schedule("42694e9e57", {"schedule_time": "2026-12-01T09:00:00+00:00"})
with call("mailchimp_get_campaign_report", {"campaign_id": "42694e9e57"}):
    reports.get_campaign_report("42694e9e57")
