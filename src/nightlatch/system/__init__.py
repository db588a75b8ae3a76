"""Every line that depends on the operating system. Knows nothing of stores; imports only `core` and `errors`."""
