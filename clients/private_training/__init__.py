"""DP-SGD for silos' records, as a mod of any Flower app in PyTorch.

``record_mod`` holds the mod, ``training`` what the app's train function calls, ``steps``
what happens then. PyTorch is imported with the last one only.
"""
