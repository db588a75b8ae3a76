"""Programs that tests start as processes of their own: they hold, write, race, and kill one another."""
