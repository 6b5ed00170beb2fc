"""Asana: asana, the Python client library of Asana."""

import asana
from recording import CREDENTIAL, at, call

configuration = asana.Configuration()
configuration.access_token = CREDENTIAL
configuration.host = at(configuration.host)
configuration.return_page_iterator = False
client = asana.ApiClient(configuration)
tasks, projects = asana.TasksApi(client), asana.ProjectsApi(client)
stories, sections = asana.StoriesApi(client), asana.SectionsApi(client)
users, workspaces, typeahead = asana.UsersApi(client), asana.WorkspacesApi(client), asana.TypeaheadApi(client)
REPLY = {"data": {}}

with call("asana_list_workspaces", {"limit": 10}, reply=REPLY):
    workspaces.get_workspaces({"limit": 10})
with call("asana_get_user", {"user_gid": "me"}, reply=REPLY):
    users.get_user("me", {})
with call("asana_list_users", {"workspace": "31415", "limit": 50}, reply=REPLY):
    users.get_users({"workspace": "31415", "limit": 50})
with call(
    "asana_search_by_name",
    {"workspace_gid": "31415", "resource_type": "task", "query": "bug fix", "count": 5},
    reply=REPLY,
):
    typeahead.typeahead_for_workspace("31415", "task", {"query": "bug fix", "count": 5})
with call(
    "asana_list_projects",
    {"workspace": "31415", "archived": False, "limit": 20},
    reply=REPLY,
    differs={
        "/query/archived/0": "The SDK writes False as Python does; the document has a boolean, which is false."
    },
):
    projects.get_projects({"workspace": "31415", "archived": False, "limit": 20})
with call("asana_get_project", {"project_gid": "1331"}, reply=REPLY):
    projects.get_project("1331", {})
with call("asana_create_project", {"body": {"data": {"name": "Launch", "workspace": "31415"}}}, reply=REPLY):
    projects.create_project({"data": {"name": "Launch", "workspace": "31415"}}, {})
with call("asana_list_sections", {"project_gid": "1331"}, reply=REPLY):
    sections.get_sections_for_project("1331", {})
with call(
    "asana_list_project_tasks",
    {"project_gid": "1331", "limit": 25, "opt_fields": ["name", "due_on"]},
    reply=REPLY,
):
    tasks.get_tasks_for_project("1331", {"limit": 25, "opt_fields": "name,due_on"})
with call(
    "asana_list_tasks", {"assignee": "me", "workspace": "31415", "completed_since": "now"}, reply=REPLY
):
    tasks.get_tasks({"assignee": "me", "workspace": "31415", "completed_since": "now"})
with call("asana_get_task", {"task_gid": "321654"}, reply=REPLY):
    tasks.get_task("321654", {})
TASK = {"data": {"name": "Write the report", "projects": ["1331"], "due_on": "2026-12-01"}}
with call("asana_create_task", {"body": TASK}, reply=REPLY):
    tasks.create_task(TASK, {})
with call("asana_update_task", {"task_gid": "321654", "body": {"data": {"completed": True}}}, reply=REPLY):
    tasks.update_task({"data": {"completed": True}}, "321654", {})
with call(
    "asana_create_subtask", {"task_gid": "321654", "body": {"data": {"name": "First draft"}}}, reply=REPLY
):
    tasks.create_subtask_for_task({"data": {"name": "First draft"}}, "321654", {})
with call("asana_list_task_comments", {"task_gid": "321654", "limit": 10}, reply=REPLY):
    stories.get_stories_for_task("321654", {"limit": 10})
with call(
    "asana_comment_on_task", {"task_gid": "321654", "body": {"data": {"text": "Looks good"}}}, reply=REPLY
):
    stories.create_story_for_task({"data": {"text": "Looks good"}}, "321654", {})
with call(
    "asana_add_task_to_section",
    {"section_gid": "777", "body": {"data": {"task": "321654"}}},
    reply=REPLY,
    differs={
        "/query/body": "The SDK repeats the body in the query, as Python writes it; no document has such a parameter."
    },
):
    sections.add_task_for_section("777", {"body": {"data": {"task": "321654"}}})
