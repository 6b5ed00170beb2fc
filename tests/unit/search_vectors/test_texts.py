"""The texts of a tool: what it does, and what it takes and returns, each with the provider in front."""

from app.search_vectors.texts import MAX_TEXT, DescribedTool, tool_texts

SCHEMA = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "description": "The order\n to change."},
        "body": {"type": "object", "properties": {"discountCode": {"type": "string"}}},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"quantity": {"type": "integer"}}},
        },
    },
}


def test_both_begin_with_the_providers_title_and_the_name_in_words() -> None:
    tool = DescribedTool(
        "shop", "shop.createHTTPCoupon_v2", "Create a coupon.", title="Corner Shop API", inputs=SCHEMA
    )
    what, members = tool_texts(tool)
    assert what == "Corner Shop API: create http coupon v2. Create a coupon."
    assert members.startswith(
        "Corner Shop API: create http coupon v2. order id (The order to change.), body, "
    )


def test_without_a_title_the_providers_name_is_in_front() -> None:
    assert tool_texts(DescribedTool("corner_shop", "corner_shop.list", ""))[0] == "corner shop: list."


def test_nested_members_and_results_are_named() -> None:
    outputs = {"type": "object", "properties": {"total": {"type": "number"}}}
    members = tool_texts(DescribedTool("shop", "shop.pay", "Pay.", inputs=SCHEMA, outputs=outputs))[1]
    for name in ("discount code", "quantity", "total"):
        assert name in members


def test_a_tool_without_members_has_one_text() -> None:
    assert (
        tool_texts(DescribedTool("shop", "shop.ping", "Ping.", inputs={"type": "object", "properties": {}}))[
            1
        ]
        == ""
    )


def test_texts_and_depth_are_bounded() -> None:
    nested: dict[str, object] = {}
    for _ in range(50):
        nested = {"properties": {"member": nested}}
    wide = {"properties": {f"name{number}": {"description": "x" * 5_000} for number in range(1_000)}}
    for inputs in (nested, wide):
        texts = tool_texts(DescribedTool("shop", "shop.all", "y" * 100_000, inputs=inputs))
        assert all(0 < len(text) <= MAX_TEXT for text in texts)


def test_schemas_that_are_no_schemas_have_no_members() -> None:
    for inputs in ({"properties": None}, {"properties": {"a": True}, "items": 3}, {"items": [1]}):
        tool = DescribedTool("shop", "shop.odd", "Odd.", inputs=inputs)
        assert tool_texts(tool)[1] in ("", "shop: odd. a")
