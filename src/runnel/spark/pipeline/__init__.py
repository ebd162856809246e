"""Pipelines: a Python file of functions over DataFrames, run as streaming queries from topics to topics and files.

What a file imports is in `runnel.pipeline`. Nothing here needs Spark until a pipeline is run.
"""
