"""What runs beside torch in the environment under test: standard library and pytest only, Python 3.10+.

Nothing here imports rocwright: the environment under test need not have it. It is found through PYTHONPATH,
as modules of this directory, not of the package.
"""
