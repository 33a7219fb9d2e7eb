"""Feeds: what gives a source its rows, batch by batch, each with a cursor that is committed with them."""
