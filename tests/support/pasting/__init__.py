"""The commands of the documents and of every --help, pasted as they are into a folder that has what they need."""
