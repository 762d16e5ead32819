"""The command line: one file per group of verbs, imported only when its verb is used."""
