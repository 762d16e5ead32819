"""Paper 2, SKALOS: look-alike skills told apart by a max–min witness over capability graphs."""
