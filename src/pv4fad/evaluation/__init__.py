"""How good predictions are: measures, and the evaluation of one private run."""
