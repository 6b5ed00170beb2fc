"""Google Tasks: google-api-python-client."""

from google_service import service
from recording import call

api = service("tasks", "v1", "https://tasks.googleapis.com/")
lists, tasks = api.tasklists(), api.tasks()
LIST = "MTA2ODk"

with call("tasks_list_task_lists", {"maxResults": 20}):
    lists.list(maxResults=20).execute()
with call("tasks_create_task_list", {"body": {"title": "Move & settle"}}):
    lists.insert(body={"title": "Move & settle"}).execute()
with call(
    "tasks_list_tasks",
    {"tasklist": LIST, "showCompleted": False, "dueMax": "2026-12-01T00:00:00Z", "maxResults": 50},
):
    tasks.list(tasklist=LIST, showCompleted=False, dueMax="2026-12-01T00:00:00Z", maxResults=50).execute()
with call("tasks_get_task", {"tasklist": LIST, "task": "dGFzaw"}):
    tasks.get(tasklist=LIST, task="dGFzaw").execute()
TASK = {"title": "Call Ada", "notes": "About the contract", "due": "2026-12-01T00:00:00Z"}
with call("tasks_create_task", {"tasklist": LIST, "parent": "cGFyZW50", "body": TASK}):
    tasks.insert(tasklist=LIST, parent="cGFyZW50", body=TASK).execute()
with call("tasks_update_task", {"tasklist": LIST, "task": "dGFzaw", "body": {"status": "completed"}}):
    tasks.patch(tasklist=LIST, task="dGFzaw", body={"status": "completed"}).execute()
with call("tasks_move_task", {"tasklist": LIST, "task": "dGFzaw", "previous": "b3RoZXI"}):
    tasks.move(tasklist=LIST, task="dGFzaw", previous="b3RoZXI").execute()
with call("tasks_delete_task", {"tasklist": LIST, "task": "dGFzaw"}):
    tasks.delete(tasklist=LIST, task="dGFzaw").execute()
