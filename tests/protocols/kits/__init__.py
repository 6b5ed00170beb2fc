"""One kit for each protocol: a real upstream of it, and how the contract suite speaks to it."""
