"""The transaction coordinator of a broker, and the markers that end transactions."""
