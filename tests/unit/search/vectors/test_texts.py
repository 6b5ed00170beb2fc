"""The texts of a tool: what it does, with the name and with the title of its provider in front."""

from app.search.vectors.texts import MAX_TEXT, DescribedTool, write_tool_texts


def test_one_begins_with_the_name_of_the_provider_and_one_with_its_title() -> None:
    tool = DescribedTool(
        "corner_shop", "corner_shop.createHTTPCoupon_v2", "Create\n a coupon.", title="Coupons & Co"
    )
    assert write_tool_texts(tool) == (
        "corner shop: create http coupon v2. Create a coupon.",
        "Coupons & Co: create http coupon v2. Create a coupon.",
    )


def test_without_another_title_there_is_one_text() -> None:
    for title in ("", "  ", "Corner Shop"):
        assert write_tool_texts(DescribedTool("corner_shop", "corner_shop.list", "", title=title)) == (
            "corner shop: list.",
            "",
        )


def test_texts_are_bounded() -> None:
    tool = DescribedTool("shop", f"shop.{'x' * 5_000}", "y" * 100_000, title="z" * 5_000)
    assert [len(text) for text in write_tool_texts(tool)] == [MAX_TEXT, MAX_TEXT]
