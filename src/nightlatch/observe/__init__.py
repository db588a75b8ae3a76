"""What people ask of ledger and store, as plain values: the terminal, the pages and alerts say the same.

Knows nothing of colour, width or screens: a front end arranges and paints. A view takes no lease, writes nothing and
makes no store.
"""
