"""The tool calls of models: readers and writers of the dialects that they come in, and the run of a batch."""
