"""One run: acquiring and sealing, keeping, supervising. Imports every layer above it, none below."""
