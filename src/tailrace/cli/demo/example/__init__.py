"""The pipeline of the demo, as an example: a copy of it can be changed and run with `tailrace pipeline run`."""
