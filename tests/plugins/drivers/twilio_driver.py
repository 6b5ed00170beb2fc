"""Twilio: twilio, the Python helper library of Twilio."""

import twilio.http.http_client
from recording import CREDENTIAL, at, call
from twilio.rest import Client

SID = "AC" + "0" * 32


class Recorded(twilio.http.http_client.TwilioHttpClient):  # type: ignore[misc]
    """The library's own client, at the address of the recorder."""

    def request(self, method: str, url: str, *arguments: object, **named: object) -> object:
        return super().request(method, at(url), *arguments, **named)


client = Client(SID, CREDENTIAL, http_client=Recorded())
PAGE = {
    "messages": [],
    "calls": [],
    "incoming_phone_numbers": [],
    "available_phone_numbers": [],
    "recordings": [],
}
MESSAGE = "SM" + "1" * 32

with call("twilio_list_accounts", {"Status": "active", "PageSize": 5}, reply={"accounts": []}):
    client.api.v2010.accounts.page(status="active", page_size=5)
with call(
    "twilio_send_message",
    {"AccountSid": SID, "body": {"To": "+15558675310", "From": "+15017122661", "Body": "Hi & welcome"}},
):
    client.messages.create(to="+15558675310", from_="+15017122661", body="Hi & welcome")
with call("twilio_list_messages", {"AccountSid": SID, "To": "+15558675310", "PageSize": 20}, reply=PAGE):
    client.messages.page(to="+15558675310", page_size=20)
with call("twilio_get_message", {"AccountSid": SID, "Sid": MESSAGE}):
    client.messages(MESSAGE).fetch()
with call("twilio_list_message_media", {"AccountSid": SID, "MessageSid": MESSAGE}, reply={"media_list": []}):
    client.messages(MESSAGE).media.page()
with call(
    "twilio_make_call",
    {
        "AccountSid": SID,
        "body": {"To": "+15558675310", "From": "+15017122661", "Url": "https://example.com/answer.xml"},
    },
):
    client.calls.create(to="+15558675310", from_="+15017122661", url="https://example.com/answer.xml")
with call("twilio_list_calls", {"AccountSid": SID, "Status": "completed", "PageSize": 5}, reply=PAGE):
    client.calls.page(status="completed", page_size=5)
with call("twilio_get_call", {"AccountSid": SID, "Sid": "CA" + "1" * 32}):
    client.calls("CA" + "1" * 32).fetch()
with call("twilio_end_call", {"AccountSid": SID, "Sid": "CA" + "1" * 32, "body": {"Status": "completed"}}):
    client.calls("CA" + "1" * 32).update(status="completed")
with call("twilio_list_recordings", {"AccountSid": SID, "CallSid": "CA" + "1" * 32}, reply=PAGE):
    client.recordings.page(call_sid="CA" + "1" * 32)
with call("twilio_list_phone_numbers", {"AccountSid": SID, "PageSize": 20}, reply=PAGE):
    client.incoming_phone_numbers.page(page_size=20)
with call(
    "twilio_search_available_numbers",
    {"AccountSid": SID, "CountryCode": "US", "AreaCode": 510, "SmsEnabled": True},
    reply=PAGE,
):
    client.available_phone_numbers("US").local.page(area_code=510, sms_enabled=True)
with call("twilio_get_balance", {"AccountSid": SID}):
    client.balance.fetch()
