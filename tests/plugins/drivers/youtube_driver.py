"""YouTube: google-api-python-client."""

from google_service import service
from recording import call

api = service("youtube", "v3", "https://youtube.googleapis.com/")

with call(
    "youtube_search",
    {"part": ["snippet"], "q": "python & asyncio", "type": ["video"], "maxResults": 5, "order": "date"},
):
    api.search().list(
        part=["snippet"], q="python & asyncio", type=["video"], maxResults=5, order="date"
    ).execute()
with call("youtube_get_videos", {"part": ["snippet", "statistics"], "id": ["Ks-_Mh1QhMc", "c0KYU2j0TM4"]}):
    api.videos().list(part=["snippet", "statistics"], id=["Ks-_Mh1QhMc", "c0KYU2j0TM4"]).execute()
with call("youtube_get_channels", {"part": ["snippet"], "forHandle": "@python"}):
    api.channels().list(part=["snippet"], forHandle="@python").execute()
with call("youtube_list_playlists", {"part": ["snippet"], "mine": True, "maxResults": 25}):
    api.playlists().list(part=["snippet"], mine=True, maxResults=25).execute()
with call(
    "youtube_list_playlist_items",
    {"part": ["snippet", "contentDetails"], "playlistId": "PL123", "maxResults": 50},
):
    api.playlistItems().list(part=["snippet", "contentDetails"], playlistId="PL123", maxResults=50).execute()
PLAYLIST = {"snippet": {"title": "To watch"}, "status": {"privacyStatus": "private"}}
with call("youtube_create_playlist", {"part": ["snippet", "status"], "body": PLAYLIST}):
    api.playlists().insert(part=["snippet", "status"], body=PLAYLIST).execute()
ITEM = {"snippet": {"playlistId": "PL123", "resourceId": {"kind": "youtube#video", "videoId": "Ks-_Mh1QhMc"}}}
with call("youtube_add_to_playlist", {"part": ["snippet"], "body": ITEM}):
    api.playlistItems().insert(part=["snippet"], body=ITEM).execute()
with call(
    "youtube_list_comments",
    {"part": ["snippet", "replies"], "videoId": "Ks-_Mh1QhMc", "textFormat": "plainText"},
):
    api.commentThreads().list(
        part=["snippet", "replies"], videoId="Ks-_Mh1QhMc", textFormat="plainText"
    ).execute()
with call("youtube_list_subscriptions", {"part": ["snippet"], "mine": True}):
    api.subscriptions().list(part=["snippet"], mine=True).execute()
