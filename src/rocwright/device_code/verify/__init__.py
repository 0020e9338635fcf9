"""Verify split device code: libraries, archives, trees and wheels, alone and against the original."""
