"""What the service does under load and over a grown database: `sesi bench` and `sesi grow`."""
