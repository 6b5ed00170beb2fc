"""Client library of utcp-gateway.

`utcp_gateway_client.tools` makes tools of Python functions; `utcp_gateway_client.serving` publishes them;
`utcp_gateway_client.gateway` has the tools of a gateway; `utcp_gateway_client.loop` lets a model call both.
"""
