"""Strategies that train any model of an app, or a network that is sent as data."""
