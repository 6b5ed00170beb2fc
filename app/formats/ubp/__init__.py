"""The Universal Bot Protocol (UBP): its messages in both forms, as protocol buffers and as JSON.

The messages are those of `proto/ubp/v1`. What travels through the gateway are the dataclasses of `model`,
because a message that arrives in one form may leave in the other.
"""
