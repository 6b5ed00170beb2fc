"""Google Calendar: google-api-python-client."""

from google_service import service
from recording import call

calendar = service("calendar", "v3", "https://www.googleapis.com/calendar/v3/")
events = calendar.events()

with call("calendar_list_calendars", {"maxResults": 50}):
    calendar.calendarList().list(maxResults=50).execute()
with call(
    "calendar_list_events",
    {
        "calendarId": "team@group.calendar.google.com",
        "timeMin": "2026-11-24T00:00:00+01:00",
        "timeMax": "2026-11-25T00:00:00+01:00",
        "singleEvents": True,
        "orderBy": "startTime",
        "maxResults": 20,
    },
):
    events.list(
        calendarId="team@group.calendar.google.com",
        timeMin="2026-11-24T00:00:00+01:00",
        timeMax="2026-11-25T00:00:00+01:00",
        singleEvents=True,
        orderBy="startTime",
        maxResults=20,
    ).execute()
with call("calendar_get_event", {"calendarId": "primary", "eventId": "abc123"}):
    events.get(calendarId="primary", eventId="abc123").execute()
EVENT = {
    "summary": "Review & plan",
    "start": {"dateTime": "2026-12-01T10:00:00+01:00"},
    "end": {"dateTime": "2026-12-01T11:00:00+01:00"},
    "attendees": [{"email": "ada@example.com"}],
}
with call("calendar_create_event", {"calendarId": "primary", "sendUpdates": "all", "body": EVENT}):
    events.insert(calendarId="primary", sendUpdates="all", body=EVENT).execute()
with call("calendar_quick_add_event", {"calendarId": "primary", "text": "Lunch with Ada tomorrow 12:30"}):
    events.quickAdd(calendarId="primary", text="Lunch with Ada tomorrow 12:30").execute()
with call(
    "calendar_update_event", {"calendarId": "primary", "eventId": "abc123", "body": {"location": "Room 4"}}
):
    events.patch(calendarId="primary", eventId="abc123", body={"location": "Room 4"}).execute()
with call("calendar_delete_event", {"calendarId": "primary", "eventId": "abc123", "sendUpdates": "none"}):
    events.delete(calendarId="primary", eventId="abc123", sendUpdates="none").execute()
with call("calendar_list_event_instances", {"calendarId": "primary", "eventId": "abc123", "maxResults": 5}):
    events.instances(calendarId="primary", eventId="abc123", maxResults=5).execute()
FREE_BUSY = {
    "timeMin": "2026-12-01T00:00:00Z",
    "timeMax": "2026-12-02T00:00:00Z",
    "items": [{"id": "primary"}],
}
with call("calendar_find_busy_times", {"body": FREE_BUSY}):
    calendar.freebusy().query(body=FREE_BUSY).execute()
