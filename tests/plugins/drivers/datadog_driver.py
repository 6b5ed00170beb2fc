"""Datadog: datadog-api-client, the Python client of Datadog."""

from datetime import UTC, datetime
from typing import Any

from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v1.api.dashboards_api import DashboardsApi
from datadog_api_client.v1.api.events_api import EventsApi
from datadog_api_client.v1.api.hosts_api import HostsApi
from datadog_api_client.v1.api.logs_api import LogsApi
from datadog_api_client.v1.api.metrics_api import MetricsApi
from datadog_api_client.v1.api.monitors_api import MonitorsApi
from datadog_api_client.v1.api.service_level_objectives_api import ServiceLevelObjectivesApi
from datadog_api_client.v1.model.event_create_request import EventCreateRequest
from datadog_api_client.v1.model.logs_list_request import LogsListRequest
from datadog_api_client.v1.model.logs_list_request_time import LogsListRequestTime
from datadog_api_client.v1.model.logs_sort import LogsSort
from datadog_api_client.v1.model.monitor import Monitor
from datadog_api_client.v1.model.monitor_type import MonitorType
from datadog_api_client.v1.model.monitor_update_request import MonitorUpdateRequest
from recording import CREDENTIAL, at, call

configuration = Configuration(host=at("https://api.datadoghq.com"))
configuration.api_key["apiKeyAuth"] = CREDENTIAL
configuration.api_key["appKeyAuth"] = CREDENTIAL
client: Any = ApiClient(configuration)
monitors, metrics, events = MonitorsApi(client), MetricsApi(client), EventsApi(client)
dashboards, slos = DashboardsApi(client), ServiceLevelObjectivesApi(client)

with call("datadog_search_monitors", {"query": 'status:Alert tag:"env:prod"', "page": 0, "per_page": 20}):
    monitors.search_monitors(query='status:Alert tag:"env:prod"', page=0, per_page=20)
with call("datadog_list_monitors", {"name": "cpu", "monitor_tags": "team:web", "page_size": 50}):
    monitors.list_monitors(name="cpu", monitor_tags="team:web", page_size=50)
with call("datadog_get_monitor", {"monitor_id": 666486743, "group_states": "alert,warn"}):
    monitors.get_monitor(666486743, group_states="alert,warn")
QUERY = "avg(last_5m):avg:system.cpu.user{env:prod} > 90"
with call(
    "datadog_create_monitor",
    {
        "body": {
            "name": "CPU",
            "type": "metric alert",
            "query": QUERY,
            "message": "Hot @ops",
            "tags": ["env:prod"],
        }
    },
):
    monitors.create_monitor(
        Monitor(name="CPU", type=MonitorType.METRIC_ALERT, query=QUERY, message="Hot @ops", tags=["env:prod"])
    )
with call("datadog_update_monitor", {"monitor_id": 666486743, "body": {"message": "Very hot & loud"}}):
    monitors.update_monitor(666486743, MonitorUpdateRequest(message="Very hot & loud"))
with call(
    "datadog_query_metrics",
    {"from": 1700000000, "to": 1700003600, "query": "avg:system.cpu.user{env:prod} by {host}"},
):
    metrics.query_metrics(_from=1700000000, to=1700003600, query="avg:system.cpu.user{env:prod} by {host}")
with call("datadog_list_active_metrics", {"from": 1700000000, "host": "web-1"}):
    metrics.list_active_metrics(_from=1700000000, host="web-1")
LOGS = {
    "query": "service:web status:error",
    "time": {"from": "2026-11-24T10:00:00+00:00", "to": "2026-11-24T11:00:00+00:00"},
    "sort": "desc",
    "limit": 25,
}
with call("datadog_search_logs", {"body": LOGS}):
    time = LogsListRequestTime(
        _from=datetime(2026, 11, 24, 10, tzinfo=UTC),
        to=datetime(2026, 11, 24, 11, tzinfo=UTC),
    )
    LogsApi(client).list_logs(
        LogsListRequest(query="service:web status:error", time=time, sort=LogsSort.TIME_DESCENDING, limit=25)
    )
with call("datadog_list_events", {"start": 1700000000, "end": 1700003600, "tags": "env:prod"}):
    events.list_events(start=1700000000, end=1700003600, tags="env:prod")
with call(
    "datadog_post_event", {"body": {"title": "Deploy", "text": "Build 42 is live", "tags": ["env:prod"]}}
):
    events.create_event(EventCreateRequest(title="Deploy", text="Build 42 is live", tags=["env:prod"]))
with call("datadog_list_dashboards", {"filter_shared": False, "count": 20}):
    dashboards.list_dashboards(filter_shared=False, count=20)
with call("datadog_get_dashboard", {"dashboard_id": "abc-def-ghi"}):
    dashboards.get_dashboard("abc-def-ghi")
with call("datadog_list_hosts", {"filter": "env:prod", "count": 100}):
    HostsApi(client).list_hosts(filter="env:prod", count=100)
with call("datadog_list_slos", {"query": "checkout", "limit": 10}):
    slos.list_slos(query="checkout", limit=10)
with call("datadog_get_slo_history", {"slo_id": "13d4", "from_ts": 1700000000, "to_ts": 1700086400}):
    slos.get_slo_history("13d4", from_ts=1700000000, to_ts=1700086400)
