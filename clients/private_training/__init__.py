"""DP-SGD for silos' records: a mod for any Flower app in PyTorch, and apps for networks as data."""
