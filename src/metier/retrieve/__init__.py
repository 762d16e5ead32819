"""Paper 1, SkillRep: which skills are about this request.

    score(q, d) = (1 − α) · z(q · P d) + α · z(BM25(q, d))

over the union of the best of both channels. `index` is the front door: `build`, `load`, `Retrieve`. The files are
named for the ideas: `documents` (what a skill is indexed by), `bm25` and `postings` (the lexical channel),
`background` (the projection P), `fuse` (z and α), `names` (skills asked for by name), `abstain` (requests that need
no skill), `vectors` (each text is encoded once), `generation` (the files of an index).
"""
