"""The scores of four existing converters on the same corpus: per cent of operations, without Microsoft Graph.

Measured with utcp-http 1.1.15, FastMCP 4.1.2, google-adk 2.13 and openapi-llm 0.4.3, one child per document,
60 s and 4 GiB; a rejected document counts as all wrong. M16 is on a sample of 646 cases of their own.
"""

NAMES = ("utcp-http", "FastMCP", "google-adk", "openapi-llm")
Row = tuple[str, tuple[str, ...], tuple[str, str, str, str]]

#: The title of the row, our metrics in it, and the published figures of the four converters.
ROWS: tuple[Row, ...] = (
    ("M1 specs converted", ("M1",), ("99.73", "99.66", "97.16", "98.11")),
    ("M2 one tool per operation", ("M2",), ("90.0", "99.5", "94.5", "87.5")),
    (
        "M3 names unique / legal",
        ("M3 unique", "M3 legal"),
        ("90.0 / 68.3", "99.5 / 99.5", "94.5 / 94.5", "87.3 / 87.5"),
    ),
    ("M3 names stable", ("M3 stable",), ("-", "-", "-", "-")),
    (
        "M4 schema valid / root object",
        ("M4 valid", "M4 root"),
        ("89.7 / 0", "99.3 / 99.5", "94.5 / 94.5", "87.4 / 87.5"),
    ),
    ("M5 refs resolve inside the tool", ("M5",), ("72.8", "99.4", "94.5", "87.5")),
    ("M6 no OpenAPI dialect left", ("M6",), ("87.8", "99.3", "91.4", "87.5")),
    ("M7 legal property keys", ("M7",), ("81.6", "91.0", "94.5", "86.2")),
    ("M8 path placeholders required", ("M8",), ("90.5", "99.0", "94.1", "80.5")),
    (
        "M9 parameters / collisions apart",
        ("M9 parameters", "M9 collisions"),
        ("90.8 / 67.4", "99.2 / 99.8", "95.1 / 92.8", "56.6 / 0"),
    ),
    ("M10 required-ness exact", ("M10",), ("77.1", "99.2", "91.8", "79.9")),
    ("M11 body reachable", ("M11 body",), ("69.5", "99.4", "89.9", "59.8")),
    (
        "M11 non-JSON / readOnly hidden",
        ("M11 non-JSON", "M11 readOnly"),
        ("0 / -", "98.5 / 0", "83.7 / 15.6", "0 / -"),
    ),
    (
        "M12 content type / non-JSON",
        ("M12", "M12 non-JSON"),
        ("69.5 / 0", "99.4 / 98.3", "91.6 / 83.6", "68.4 / 0"),
    ),
    (
        "M13 URL absolute / exact",
        ("M13 absolute", "M13 exact"),
        ("84.2 / 84.0", "91.8 / 86.1", "83.0 / 65.9", "76.7 / 60.3"),
    ),
    (
        "M14 secured / public",
        ("M14 secured", "M14 public"),
        ("65.3 / 85.7", "0 / 99.6", "89.0 / 97.0", "47.2 / 81.8"),
    ),
    ("M14 ignored headers hidden", ("M14 ignored headers",), ("0", "0", "0", "0.1")),
    ("M15 valid arguments accepted", ("M15 accepted",), ("58.3", "95.9", "92.6", "52.5")),
    ("M15 ill-typed ones rejected", ("M15 rejected",), ("-", "100", "-", "-")),
    ("M16 wire, from the corpus", ("M16 corpus",), ("31.3", "88.1", "75.5", "20.6")),
)
PERFECT = ("0", "18.2", "41.9", "16.9")
SECONDS = (".002/.05/3.5", ".03/.38/12.8", ".01/1.5/49", ".004/.17/5.5")
DIFFER = ("0 of 150", "46 of 150", "0 of 150", "0 of 150")
