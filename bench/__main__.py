"""`make bench`: ratios against the raw limit and the peers, in one run."""
