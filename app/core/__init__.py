"""What every package uses: errors, settings, telemetry, pagination, texts and tasks."""
