"""The interface for people: `hoodie.Table`, above the clients, the queries and the tools."""
