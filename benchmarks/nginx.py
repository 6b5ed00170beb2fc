"""The lower bound: nginx, one worker, which turns the same POST into the same GET with the key added."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import NotStarted, ServerProcess, free_port, start_server
from benchmarks.shape import KEY, KEY_HEADER

_CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream target {{ server {address}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location ~ ^/tools/([0-9]+)/call$ {{
      proxy_pass http://target/t$1/items/42?q=sea&limit=10;
      proxy_method GET;
      proxy_pass_request_body off;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Content-Length "";
      proxy_set_header {header} {key};
    }}
  }}
}}
"""


@contextmanager
def nginx(upstream: str, folder: Path) -> Iterator[ServerProcess]:
    """nginx as found on PATH, as one process; raises NotStarted."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise NotStarted("nginx is not on PATH (Debian: nginx-light)")
    port = free_port()
    text = _CONFIGURATION.format(
        folder=folder, port=port, address=upstream.removeprefix("http://"), header=KEY_HEADER, key=KEY
    )
    (folder / "nginx.conf").write_text(text)
    arguments = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    with start_server(arguments, port=port, folder=folder, program=program) as server:
        yield server
