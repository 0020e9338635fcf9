"""Miniature of torch.utils."""
