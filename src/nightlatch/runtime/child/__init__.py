"""The command's side: speaks to its supervisor through the socket."""
