"""Rights that last: an error of a check is no loss of the right."""

import asyncio

from app.security import lasting_rights


async def test_an_unexpected_error_of_a_check_does_not_end_the_work():
    checked = asyncio.Event()
    checks = 0

    async def check():
        nonlocal checks
        checks += 1
        if checks > 1:
            checked.set()
        raise RuntimeError("a fault of the check")

    async def work():
        await checked.wait()
        return "done"

    assert await lasting_rights.run_while_permitted(work(), check) == "done"
    assert checks == 2
