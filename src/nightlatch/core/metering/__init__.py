"""What a call to a model may cost and has cost: pure, in whole billionths of a dollar."""
