"""What the HTTP services share: the server, users, and what is refused before a request is routed."""
