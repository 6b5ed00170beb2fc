"""Gmail: google-api-python-client."""

from google_service import service
from recording import call

users = service("gmail", "v1", "https://gmail.googleapis.com/").users()
messages, threads, drafts = users.messages(), users.threads(), users.drafts()

RAW = "VG86IGFkYUBleGFtcGxlLmNvbQ0KU3ViamVjdDogSGVsbG8NCg0KSGkh"

with call("gmail_get_profile", {}):
    users.getProfile(userId="me").execute()
with call(
    "gmail_search_messages",
    {"q": "from:ada@example.com is:unread", "maxResults": 10, "labelIds": ["INBOX", "IMPORTANT"]},
):
    messages.list(
        userId="me", q="from:ada@example.com is:unread", maxResults=10, labelIds=["INBOX", "IMPORTANT"]
    ).execute()
with call("gmail_get_message", {"id": "18c2", "format": "full"}):
    messages.get(userId="me", id="18c2", format="full").execute()
with call("gmail_get_attachment", {"messageId": "18c2", "id": "ANGjdJ8w"}):
    messages.attachments().get(userId="me", messageId="18c2", id="ANGjdJ8w").execute()
with call("gmail_send_message", {"body": {"raw": RAW, "threadId": "18c0"}}):
    messages.send(userId="me", body={"raw": RAW, "threadId": "18c0"}).execute()
with call(
    "gmail_modify_labels", {"id": "18c2", "body": {"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]}}
):
    messages.modify(
        userId="me", id="18c2", body={"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]}
    ).execute()
with call("gmail_trash_message", {"id": "18c2"}):
    messages.trash(userId="me", id="18c2").execute()
with call("gmail_search_threads", {"q": "subject:invoice", "maxResults": 5}):
    threads.list(userId="me", q="subject:invoice", maxResults=5).execute()
with call("gmail_get_thread", {"id": "18c0", "format": "metadata", "metadataHeaders": ["From", "Subject"]}):
    threads.get(userId="me", id="18c0", format="metadata", metadataHeaders=["From", "Subject"]).execute()
with call("gmail_create_draft", {"body": {"message": {"raw": RAW}}}):
    drafts.create(userId="me", body={"message": {"raw": RAW}}).execute()
with call("gmail_list_drafts", {"maxResults": 5}):
    drafts.list(userId="me", maxResults=5).execute()
with call("gmail_send_draft", {"body": {"id": "r-77"}}):
    drafts.send(userId="me", body={"id": "r-77"}).execute()
with call("gmail_list_labels", {}):
    users.labels().list(userId="me").execute()
