"""The response of a call: followed to its end, shaped, checked, masked and cached."""
