"""Recipes to environments to wheels: the PyTorch family against installed ROCm packages."""
