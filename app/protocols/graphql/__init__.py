"""UTCP's `graphql`."""
