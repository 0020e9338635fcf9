"""A stand-in for AMD's HIP runtime, and how it is built to fit one library."""
