"""Security of connections to brokers: TLS, logins by SASL, and the tokens of OAuth."""
