"""Where ROCm comes from: packages, archives, artifacts or an installed tree, read into one form."""
