"""One supervised run: from the first look to the verdict, and the Python job that is its child."""
