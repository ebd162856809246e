"""The connector for the lines of one file."""
