"""Hetzner Cloud: hcloud, the Python library of Hetzner."""

from hcloud import Client
from hcloud.images import Image
from hcloud.server_types import ServerType
from hcloud.servers import Server
from recording import CREDENTIAL, at, call

client = Client(CREDENTIAL, api_endpoint=at("https://api.hetzner.cloud/v1"))
server = Server(id=42)

with call("hetzner_list_servers", {"name": "web-1", "label_selector": "env=prod,tier in (web)"}):
    client.servers.get_list(name="web-1", label_selector="env=prod,tier in (web)")
with call("hetzner_get_server", {"id": 42}):
    client.servers.get_by_id(42)
NEW = {
    "name": "web-2",
    "server_type": "cx22",
    "image": "debian-12",
    "start_after_create": True,
    "labels": {"env": "prod"},
}
with call("hetzner_create_server", {"body": NEW}):
    client.servers.create(
        "web-2", ServerType(name="cx22"), image=Image(name="debian-12"), labels={"env": "prod"}
    )
with call("hetzner_update_server", {"id": 42, "body": {"name": "web-3", "labels": {"env": "test"}}}):
    client.servers.update(server, name="web-3", labels={"env": "test"})
with call("hetzner_power_on_server", {"id": 42}):
    client.servers.power_on(server)
with call("hetzner_shut_down_server", {"id": 42}):
    client.servers.shutdown(server)
with call("hetzner_reboot_server", {"id": 42}):
    client.servers.reboot(server)
with call("hetzner_create_image", {"id": 42, "body": {"description": "Before upgrade", "type": "snapshot"}}):
    client.servers.create_image(server, description="Before upgrade", type="snapshot")
with call("hetzner_list_server_types", {"name": "cx22"}):
    client.server_types.get_list(name="cx22")
with call("hetzner_list_images", {"type": "system", "architecture": "x86"}):
    client.images.get_list(type="system", architecture="x86")
with call("hetzner_list_locations", {}):
    client.locations.get_list()
with call("hetzner_list_ssh_keys", {"name": "laptop"}):
    client.ssh_keys.get_list(name="laptop")
with call("hetzner_list_volumes", {"label_selector": "env=prod"}):
    client.volumes.get_list(label_selector="env=prod")
with call("hetzner_list_firewalls", {"name": "web"}):
    client.firewalls.get_list(name="web")
