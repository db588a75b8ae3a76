"""The rules, pure: no I/O, no clock, no threads; `now` is an argument. Imports only `errors` and `exits`."""
