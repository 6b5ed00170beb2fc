"""Approvals in Chromium: decided by keyboard, several at once, and at every width."""

import pytest
from playwright.async_api import expect


async def test_call_is_approved_by_keyboard(console, small):
    approvals = await console(small.gateway, "/console/approvals?kind=call")
    await approvals.page.get_by_role("link", name="Review custom.needsApproval").first.focus()
    await approvals.page.keyboard.press("Enter")
    await expect(approvals.page.get_by_role("heading", name="Arguments")).to_be_visible()
    assert await approvals.axe_violations() == []
    await approvals.page.get_by_label("Comment").focus()
    await approvals.page.keyboard.type("by phone")
    await approvals.page.get_by_role("button", name="Approve and make the call").focus()
    await approvals.page.keyboard.press("Enter")
    await expect(approvals.page.get_by_role("status")).to_contain_text("Approved: 1.")
    await expect(approvals.page.get_by_text("by phone")).to_be_visible()


async def test_selected_ones_are_rejected_together(console, small):
    approvals = await console(small.gateway, "/console/approvals?kind=call")
    boxes = approvals.page.locator("input[name=id]")
    count = await boxes.count()
    assert count >= 2
    await approvals.page.get_by_label("Select all").check()
    assert await approvals.page.locator("input[name=id]:checked").count() == count
    await approvals.page.get_by_role("button", name="Reject the selected ones").click()
    await expect(approvals.page.get_by_role("status")).to_contain_text(f"Rejected: {count}.")
    with small.client() as client:
        assert client.get("/approvals", params={"kind": "call", "state": "pending"}).json()["items"] == []


@pytest.mark.parametrize("width", [360, 1440])
async def test_list_and_changes_are_accessible_at_every_width(console, small, width):
    approvals = await console(small.gateway, "/console/approvals", width=width)
    for color_scheme in ("light", "dark"):
        await approvals.page.emulate_media(color_scheme=color_scheme)
        assert await approvals.axe_violations() == []
    assert await approvals.page.evaluate("document.documentElement.scrollWidth") <= width
    await approvals.page.get_by_role("link", name="Review moving").click()
    await expect(approvals.page.get_by_text("Calls would go to").first).to_be_visible()
    assert await approvals.axe_violations() == []
    assert await approvals.page.evaluate("document.documentElement.scrollWidth") <= width
