"""Slack: slack_sdk, the Python Slack SDK of Slack."""

from recording import CREDENTIAL, also_accepts, at, call
from slack_sdk import WebClient

also_accepts(
    "form-as-query",
    "The SDK posts the arguments of every method as a form. The document reads by GET with a query, and Slack takes both.",
)
also_accepts(
    "json-as-form",
    "The SDK posts chat.postMessage and chat.update as JSON. The document has the form, and Slack takes both.",
)

client = WebClient(token=CREDENTIAL, base_url=at(WebClient.BASE_URL))
OK = {"ok": True}


with call(
    "slack_post_message",
    {"body": {"channel": "C024BE91L", "text": "Build 42 & deploy: done", "thread_ts": "1405894322.002768"}},
    reply=OK,
):
    client.chat_postMessage(
        channel="C024BE91L", text="Build 42 & deploy: done", thread_ts="1405894322.002768"
    )
with call(
    "slack_update_message",
    {"body": {"channel": "C024BE91L", "ts": "1405894322.002768", "text": "Corrected"}},
    reply=OK,
):
    client.chat_update(channel="C024BE91L", ts="1405894322.002768", text="Corrected")
with call(
    "slack_list_channels",
    {"types": "public_channel,private_channel", "limit": 100, "cursor": "dXNlcjpV="},
    reply=OK,
):
    client.conversations_list(types="public_channel,private_channel", limit=100, cursor="dXNlcjpV=")
with call("slack_get_channel", {"channel": "C024BE91L"}, reply=OK):
    client.conversations_info(channel="C024BE91L")
with call("slack_get_channel_history", {"channel": "C024BE91L", "limit": 20, "cursor": "bmV4dA=="}, reply=OK):
    client.conversations_history(channel="C024BE91L", limit=20, cursor="bmV4dA==")
with call("slack_list_channel_members", {"channel": "C024BE91L", "limit": 50}, reply=OK):
    client.conversations_members(channel="C024BE91L", limit=50)
with call("slack_create_channel", {"body": {"name": "incident-7"}}, reply=OK):
    client.conversations_create(name="incident-7")
with call("slack_set_channel_topic", {"body": {"channel": "C024BE91L", "topic": "Incident 7"}}, reply=OK):
    client.conversations_setTopic(channel="C024BE91L", topic="Incident 7")
with call("slack_open_direct_message", {"body": {"users": "W1234567890"}}, reply=OK):
    client.conversations_open(users="W1234567890")
with call(
    "slack_add_reaction",
    {"body": {"channel": "C024BE91L", "name": "thumbsup", "timestamp": "1405894322.002768"}},
    reply=OK,
):
    client.reactions_add(channel="C024BE91L", name="thumbsup", timestamp="1405894322.002768")
with call("slack_list_users", {"limit": 100}, reply=OK):
    client.users_list(limit=100)
with call("slack_get_user", {"user": "W1234567890"}, reply=OK):
    client.users_info(user="W1234567890")
with call("slack_find_user_by_email", {"email": "ada+slack@example.com"}, reply=OK):
    client.users_lookupByEmail(email="ada+slack@example.com")
with call(
    "slack_search_messages", {"query": 'from:@ada "release notes"', "count": 5, "sort": "timestamp"}, reply=OK
):
    client.search_messages(query='from:@ada "release notes"', count=5, sort="timestamp")
