"""Google Sheets: google-api-python-client."""

from google_service import service
from recording import call

sheets = service("sheets", "v4", "https://sheets.googleapis.com/").spreadsheets()
values = sheets.values()
ID = "1BxiMVs0XRA5"

with call("sheets_create_spreadsheet", {"body": {"properties": {"title": "Budget 2027"}}}):
    sheets.create(body={"properties": {"title": "Budget 2027"}}).execute()
with call(
    "sheets_get_spreadsheet", {"spreadsheetId": ID, "ranges": ["A1:B2", "C1"], "includeGridData": False}
):
    sheets.get(spreadsheetId=ID, ranges=["A1:B2", "C1"], includeGridData=False).execute()
with call(
    "sheets_read_range",
    {"spreadsheetId": ID, "range": "Class Data!A2:E", "valueRenderOption": "UNFORMATTED_VALUE"},
):
    values.get(spreadsheetId=ID, range="Class Data!A2:E", valueRenderOption="UNFORMATTED_VALUE").execute()
with call("sheets_read_ranges", {"spreadsheetId": ID, "ranges": ["Sheet1!A1:B2", "Sheet2!C:C"]}):
    values.batchGet(spreadsheetId=ID, ranges=["Sheet1!A1:B2", "Sheet2!C:C"]).execute()
ROWS = {"values": [["Item", "Cost"], ["Wheel", 20.5], ["=A1", None]]}
with call(
    "sheets_write_range",
    {"spreadsheetId": ID, "range": "Sheet1!A1", "valueInputOption": "USER_ENTERED", "body": ROWS},
):
    values.update(spreadsheetId=ID, range="Sheet1!A1", valueInputOption="USER_ENTERED", body=ROWS).execute()
with call(
    "sheets_append_rows",
    {
        "spreadsheetId": ID,
        "range": "Sheet1",
        "valueInputOption": "RAW",
        "insertDataOption": "INSERT_ROWS",
        "body": ROWS,
    },
):
    values.append(
        spreadsheetId=ID, range="Sheet1", valueInputOption="RAW", insertDataOption="INSERT_ROWS", body=ROWS
    ).execute()
BATCH = {"valueInputOption": "RAW", "data": [{"range": "A1", "values": [[1]]}]}
with call("sheets_write_ranges", {"spreadsheetId": ID, "body": BATCH}):
    values.batchUpdate(spreadsheetId=ID, body=BATCH).execute()
with call("sheets_clear_range", {"spreadsheetId": ID, "range": "Sheet1!A1:Z", "body": {}}):
    values.clear(spreadsheetId=ID, range="Sheet1!A1:Z", body={}).execute()
ADD = {"requests": [{"addSheet": {"properties": {"title": "Q4"}}}]}
with call("sheets_change_spreadsheet", {"spreadsheetId": ID, "body": ADD}):
    sheets.batchUpdate(spreadsheetId=ID, body=ADD).execute()
