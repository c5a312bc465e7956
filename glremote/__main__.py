"""`python -m glremote` is `glremote`."""

from .cli import main

if __name__ == "__main__":
    main()
