"""Problem domains: each turns its events into edits of a continual program."""
