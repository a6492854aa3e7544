"""The monitor of stations: sequential tests of leave-one-out residuals, and how far a station is off."""
