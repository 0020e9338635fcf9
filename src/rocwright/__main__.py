"""`python -m rocwright`: the command where its scripts directory is not on PATH."""

from rocwright.cli import main

if __name__ == "__main__":
    main()
