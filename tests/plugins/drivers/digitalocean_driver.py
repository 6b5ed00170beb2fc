"""DigitalOcean: pydo, the Python client of DigitalOcean."""

from pydo import Client
from recording import CREDENTIAL, at, call

client = Client(token=CREDENTIAL, endpoint=at("https://api.digitalocean.com"))
# The SDK sends a token by HTTP only where each call says so.
PLAIN = {"enforce_https": False}

with call("digitalocean_get_account", {}):
    client.account.get(**PLAIN)
with call("digitalocean_list_droplets", {"tag_name": "web & api", "per_page": 50, "page": 2}):
    client.droplets.list(tag_name="web & api", per_page=50, page=2, **PLAIN)
with call("digitalocean_get_droplet", {"droplet_id": 3164444}):
    client.droplets.get(droplet_id=3164444, **PLAIN)
DROPLET = {
    "name": "web-1",
    "region": "nyc3",
    "size": "s-1vcpu-1gb",
    "image": "ubuntu-24-04-x64",
    "tags": ["web"],
}
with call("digitalocean_create_droplet", {"body": DROPLET}):
    client.droplets.create(body=DROPLET, **PLAIN)
with call("digitalocean_act_on_droplet", {"droplet_id": 3164444, "body": {"type": "reboot"}}):
    client.droplet_actions.post(droplet_id=3164444, body={"type": "reboot"}, **PLAIN)
with call("digitalocean_list_sizes", {"per_page": 100, "page": 1}):
    client.sizes.list(per_page=100, **PLAIN)
with call("digitalocean_list_images", {"type": "distribution", "per_page": 20, "page": 1}):
    client.images.list(type="distribution", per_page=20, **PLAIN)
with call("digitalocean_list_regions", {"per_page": 20, "page": 1}):
    client.regions.list(**PLAIN)
with call("digitalocean_list_ssh_keys", {"per_page": 20, "page": 1}):
    client.ssh_keys.list(per_page=20, page=1, **PLAIN)
with call("digitalocean_list_domains", {"per_page": 20, "page": 1}):
    client.domains.list(per_page=20, **PLAIN)
with call(
    "digitalocean_list_domain_records", {"domain_name": "example.com", "type": "A", "per_page": 20, "page": 1}
):
    client.domains.list_records(domain_name="example.com", type="A", **PLAIN)
RECORD = {"type": "A", "name": "www", "data": "192.0.2.10", "ttl": 1800}
with call("digitalocean_create_domain_record", {"domain_name": "example.com", "body": RECORD}):
    client.domains.create_record(domain_name="example.com", body=RECORD, **PLAIN)
with call("digitalocean_list_apps", {"per_page": 10, "page": 1}):
    client.apps.list(per_page=10, **PLAIN)
with call("digitalocean_list_databases", {"tag_name": "production"}):
    client.databases.list_clusters(tag_name="production", **PLAIN)
with call("digitalocean_list_kubernetes_clusters", {"per_page": 20, "page": 1}):
    client.kubernetes.list_clusters(**PLAIN)
with call("digitalocean_list_projects", {"per_page": 20, "page": 1}):
    client.projects.list(**PLAIN)
with call("digitalocean_get_balance", {}):
    client.balance.get(**PLAIN)
