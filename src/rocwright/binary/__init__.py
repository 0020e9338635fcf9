"""Binary formats: ELF headers and RPATHs, device code bundles; bytes in, values and patches out."""
