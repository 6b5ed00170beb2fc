"""Box: box-sdk-gen, the Python SDK of Box."""

from box_sdk_gen import BaseUrls, BoxClient, BoxDeveloperTokenAuth, NetworkSession
from box_sdk_gen.managers.comments import CreateCommentItem, CreateCommentItemTypeField
from box_sdk_gen.managers.files import CopyFileParent
from box_sdk_gen.managers.folders import CreateFolderParent
from box_sdk_gen.managers.search import SearchForContentContentTypes, SearchForContentType
from box_sdk_gen.managers.user_collaborations import (
    CreateCollaborationAccessibleBy,
    CreateCollaborationAccessibleByTypeField,
    CreateCollaborationItem,
    CreateCollaborationItemTypeField,
    CreateCollaborationRole,
)
from recording import CREDENTIAL, at, call

client = BoxClient(
    auth=BoxDeveloperTokenAuth(CREDENTIAL),
    network_session=NetworkSession(base_urls=BaseUrls(base_url=at("https://api.box.com"))),
)

with call("box_get_current_user", {}):
    client.users.get_user_me()
with call(
    "box_search",
    {
        "query": "quarterly report",
        "type": "file",
        "content_types": ["name", "description"],
        "limit": 10,
        "file_extensions": ["pdf", "docx"],
    },
):
    client.search.search_for_content(
        query="quarterly report",
        type=SearchForContentType.FILE,
        content_types=[SearchForContentContentTypes.NAME, SearchForContentContentTypes.DESCRIPTION],
        limit=10,
        file_extensions=["pdf", "docx"],
    )
with call(
    "box_list_folder_items", {"folder_id": "0", "fields": ["id", "name", "size"], "limit": 50, "offset": 100}
):
    client.folders.get_folder_items("0", fields=["id", "name", "size"], limit=50, offset=100)
with call("box_get_folder", {"folder_id": "4353455"}):
    client.folders.get_folder_by_id("4353455")
with call("box_create_folder", {"body": {"name": "Contracts & more", "parent": {"id": "0"}}}):
    client.folders.create_folder("Contracts & more", CreateFolderParent(id="0"))
with call("box_get_file", {"file_id": "12345", "fields": ["id", "name"]}):
    client.files.get_file_by_id("12345", fields=["id", "name"])
with call("box_update_file", {"file_id": "12345", "body": {"name": "final.pdf", "description": "Signed"}}):
    client.files.update_file_by_id("12345", name="final.pdf", description="Signed")
with call("box_copy_file", {"file_id": "12345", "body": {"name": "copy.pdf", "parent": {"id": "0"}}}):
    client.files.copy_file("12345", CopyFileParent(id="0"), name="copy.pdf")
with call("box_delete_file", {"file_id": "12345"}):
    client.files.delete_file_by_id("12345")
with call("box_list_file_comments", {"file_id": "12345", "limit": 10}):
    client.comments.get_file_comments("12345", limit=10)
with call(
    "box_comment_on_file", {"body": {"message": "Please review", "item": {"id": "12345", "type": "file"}}}
):
    client.comments.create_comment(
        "Please review", CreateCommentItem(id="12345", type=CreateCommentItemTypeField.FILE)
    )
SHARE = {
    "item": {"type": "folder", "id": "4353455"},
    "accessible_by": {"type": "user", "login": "ada@example.com"},
    "role": "editor",
}
with call(
    "box_share_item",
    {"notify": False, "body": SHARE},
    differs={
        "/query/notify/0": "The SDK writes False as Python does; the document has a boolean, which is false."
    },
):
    client.user_collaborations.create_collaboration(
        CreateCollaborationItem(type=CreateCollaborationItemTypeField.FOLDER, id="4353455"),
        CreateCollaborationAccessibleBy(
            type=CreateCollaborationAccessibleByTypeField.USER, login="ada@example.com"
        ),
        CreateCollaborationRole.EDITOR,
        notify=False,
    )
with call("box_list_folder_collaborations", {"folder_id": "4353455"}):
    client.list_collaborations.get_folder_collaborations("4353455")
