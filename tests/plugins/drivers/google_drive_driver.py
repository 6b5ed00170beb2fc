"""Google Drive: google-api-python-client."""

from google_service import service
from recording import call

drive = service("drive", "v3", "https://www.googleapis.com/drive/v3/")
files = drive.files()

with call("drive_get_account", {"fields": "user,storageQuota"}):
    drive.about().get(fields="user,storageQuota").execute()
with call(
    "drive_search_files",
    {
        "q": "name contains 'report' and trashed = false",
        "pageSize": 10,
        "fields": "files(id,name,mimeType)",
        "orderBy": "modifiedTime desc",
    },
):
    files.list(
        q="name contains 'report' and trashed = false",
        pageSize=10,
        fields="files(id,name,mimeType)",
        orderBy="modifiedTime desc",
    ).execute()
with call("drive_get_file", {"fileId": "1a2b", "fields": "id,name,webViewLink", "supportsAllDrives": True}):
    files.get(fileId="1a2b", fields="id,name,webViewLink", supportsAllDrives=True).execute()
with call("drive_export_file", {"fileId": "1a2b", "mimeType": "text/plain"}):
    files.export(fileId="1a2b", mimeType="text/plain").execute()
FOLDER = {"name": "Reports", "mimeType": "application/vnd.google-apps.folder", "parents": ["root"]}
with call("drive_create_file", {"body": FOLDER}):
    files.create(body=FOLDER).execute()
with call("drive_update_file", {"fileId": "1a2b", "addParents": "9z", "body": {"name": "Report 2026"}}):
    files.update(fileId="1a2b", addParents="9z", body={"name": "Report 2026"}).execute()
with call("drive_copy_file", {"fileId": "1a2b", "body": {"name": "Copy of report"}}):
    files.copy(fileId="1a2b", body={"name": "Copy of report"}).execute()
with call("drive_list_permissions", {"fileId": "1a2b", "pageSize": 20}):
    drive.permissions().list(fileId="1a2b", pageSize=20).execute()
SHARE = {"type": "user", "role": "reader", "emailAddress": "ada@example.com"}
with call("drive_share_file", {"fileId": "1a2b", "sendNotificationEmail": False, "body": SHARE}):
    drive.permissions().create(fileId="1a2b", sendNotificationEmail=False, body=SHARE).execute()
with call("drive_list_comments", {"fileId": "1a2b", "fields": "comments(id,content)"}):
    drive.comments().list(fileId="1a2b", fields="comments(id,content)").execute()
with call(
    "drive_comment_on_file", {"fileId": "1a2b", "fields": "id", "body": {"content": "Please check & sign"}}
):
    drive.comments().create(fileId="1a2b", fields="id", body={"content": "Please check & sign"}).execute()
with call("drive_list_shared_drives", {"pageSize": 10, "q": "name contains 'team'"}):
    drive.drives().list(pageSize=10, q="name contains 'team'").execute()
