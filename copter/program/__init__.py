"""What a user edits: the program, its requests and resources, and the checks of every edit."""
