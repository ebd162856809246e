"""The systems that flows read and write: one module or package each, behind the interface in `base`."""
