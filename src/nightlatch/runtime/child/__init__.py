"""The command's side: sends requests to its supervisor through the socket."""
