"""Pipelines: a Python file of functions over DataFrames, run as streaming queries from topics to topics and files.

Pipeline files import `tailrace.pipeline`. Spark is needed only to run a pipeline.
"""
