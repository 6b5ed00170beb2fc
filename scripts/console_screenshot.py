"""`python -m scripts.console_screenshot`: write docs/images/console.png, the picture of the README.

A gateway with embedded servers and the sample API is started in a new folder, as `make run` does; some calls
are made, and a page is photographed at 1440 x 900, in light colours, with a palette of 256 colours.
"""

import argparse
import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import async_playwright

from app.cli.client import GatewayClient
from app.cli.errors import CommandFailed
from scripts.png_palette import with_palette

ROOT = Path(__file__).parents[1]
IMAGE = ROOT / "docs" / "images" / "console.png"
PAGE = "/console/tools/library.searchBooks"
MAX_BYTES = 200_000
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_START_SECONDS = 120
_LISTENS = re.compile(r"listens on (http://\S+)")
_CALLS = 240


@dataclass(frozen=True, slots=True)
class _Started:
    url: str
    key: str


@contextmanager
def _gateway() -> Iterator[_Started]:
    """Run the installed program in a new folder. Raises SystemExit."""
    folder = Path(tempfile.mkdtemp(prefix="gws"))
    log = folder / "log"
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    program = Path(sys.executable).with_name("utcp-gateway")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            [str(program), "serve"],
            cwd=ROOT,
            env={**base, "DATA_DIR": str(folder / "d"), "PORT": "0", "SAMPLE_PORT": "0"},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not (found := _LISTENS.search(log.read_text(errors="replace"))):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(log.read_text(errors="replace")[-2000:])
            time.sleep(0.1)
        yield _Started(found[1], (folder / "d" / "admin.key").read_text().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _use(started: _Started) -> None:
    """Make calls, most of which succeed."""
    chance = random.Random(7)  # noqa: S311
    words = ("sea", "moon", "time", "wonder", "jane", "candle")
    with GatewayClient(started.url, key=started.key) as client:
        for _ in range(_CALLS):
            name, arguments = chance.choices(
                (
                    ("searchBooks", {"q": chance.choice(words)}),
                    ("getOpeningHours", {"day": "monday"}),
                    ("listMembers", {}),
                    ("getPopularBooks", {}),
                    ("getBook", {"book_id": "none"}),
                ),
                weights=(45, 20, 15, 15, 5),
            )[0]
            with contextlib.suppress(CommandFailed):
                client.send("POST", f"/tools/library.{name}/call", json=arguments)
    # The records of calls are written in batches.
    time.sleep(2)


async def _photograph(started: _Started, path: str, image: Path) -> None:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        sys.exit("chromium is not installed (Debian: apt-get install chromium)")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        context = await browser.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme="light", reduced_motion="reduce"
        )
        page = await context.new_page()
        await page.goto(f"{started.url}/console/sign-in")
        await page.get_by_label("API key").fill(started.key)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(lambda url: "sign-in" not in url)
        await page.goto(started.url + path)
        if "/tools/" in path:
            # The form with its response says more than the form alone.
            await page.get_by_label(re.compile(r"^q\b")).first.fill("sea")
            await page.get_by_role("button", name=re.compile(r"^Call\b")).first.click()
            await page.wait_for_load_state("load")
            await page.evaluate("scrollTo(0, 0)")
        await page.screenshot(path=image)
        await browser.close()


def main() -> int:
    """Write the image; 1 where it is larger than the README should load."""
    parser = argparse.ArgumentParser(prog="python -m scripts.console_screenshot", description=__doc__)
    parser.add_argument("--page", default=PAGE, help=f"the page of the console; {PAGE} by default")
    parser.add_argument("--image", type=Path, default=IMAGE)
    options = parser.parse_args()
    options.image.parent.mkdir(parents=True, exist_ok=True)
    with _gateway() as started:
        _use(started)
        asyncio.run(_photograph(started, options.page, options.image))
    options.image.write_bytes(with_palette(options.image.read_bytes()))
    size = options.image.stat().st_size
    sys.stdout.write(f"{options.image}: {size:,} bytes\n")
    return 1 if size > MAX_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
