"""Logins and TLS: what Java clients' properties say of them, as settings of a connection.

Invariant: no text of this room that can be printed holds a secret.
"""
