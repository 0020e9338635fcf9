"""Miniature stand-in for torch.utils.hipify; not PyTorch's hipify."""
