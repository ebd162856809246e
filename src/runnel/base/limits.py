"""Every bound in Runnel, with its reason.

A bound that users may move is a configuration option and only its default stands there;
these are the ones that protect the process itself.
"""

MIB = 1024 * 1024
