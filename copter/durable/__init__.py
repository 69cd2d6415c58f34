"""What outlives a process: snapshots and the journal of rounds."""
