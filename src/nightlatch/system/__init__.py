"""Every line that depends on the operating system. Knows nothing of leases; imports only `core`."""
