"""The recording: schema, writer, reader, SQL and cache. Knows no torch."""
