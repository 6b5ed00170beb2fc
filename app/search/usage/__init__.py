"""What the ranking of tools learns from use: who searched and then called what.

A worker notes its searches (`observed`) and stores them in the background (`service`); one worker at a time
matches them with the call log (`store`). All workers have what was learned in memory (`counts`).
"""

from app.search.usage.administration import SearchUsageAdministration
from app.search.usage.counts import LabelCount, UsageCounts
from app.search.usage.service import SearchUsage, UsageOptions

__all__ = ["LabelCount", "SearchUsage", "SearchUsageAdministration", "UsageCounts", "UsageOptions"]
