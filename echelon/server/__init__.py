"""The replay server: a read-only HTTP API over run folders, live notices, and the static files of the viewer."""
