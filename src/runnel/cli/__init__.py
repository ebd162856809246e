"""The command line: one module a noun, imported when its command is called."""
