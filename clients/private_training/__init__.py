"""DP-SGD for silos' records: as a mod of any Flower app in PyTorch, and for networks as data."""
