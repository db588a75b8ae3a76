"""`python -m nightlatch` is `nightlatch`."""

from .cli.main import main

main()
