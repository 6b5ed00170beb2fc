"""The messages of package `ubp.v1`, written by `make ubp-messages` from `app/formats/ubp/proto`."""
