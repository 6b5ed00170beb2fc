"""Statistics of calls: counts by minute and hour, written with the call records, and their queries."""
