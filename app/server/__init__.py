"""What every visitor meets before a room: health, the documentation pages, limits, the contract."""
