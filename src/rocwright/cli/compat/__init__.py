"""`rocwright compat`: what PyTorch on ROCm supports, claimed and measured."""
