"""What documents say that PyTorch on ROCm supports: facts, questions, answers, pages."""
