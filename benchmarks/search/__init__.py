"""How well tools are found."""
