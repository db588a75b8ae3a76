"""The supervisor's side of the gateway: what is left, who may call, what was used."""
