"""Wheels that bring their own ROCm."""
