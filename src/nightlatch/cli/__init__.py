"""The command line: one file a command, imported only when it is called."""
