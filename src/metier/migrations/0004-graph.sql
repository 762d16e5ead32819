-- Capability graphs. A graph is a function of a skill's digest and the extractor, so it is a cache that may be emptied.
CREATE TABLE graphs (
    digest    TEXT NOT NULL,
    extractor TEXT NOT NULL,
    graph     BLOB NOT NULL,          -- zlib of the JSON of rerank/graph.py
    at        REAL NOT NULL,
    PRIMARY KEY (digest, extractor)
) STRICT, WITHOUT ROWID;
-- The shared layer: one row a canonical meaning; a row with `into` set has been merged and can be unmerged.
CREATE TABLE canons (
    n         INTEGER PRIMARY KEY,
    type      TEXT NOT NULL CHECK (type IN ('capability', 'method', 'artifact', 'constraint')),
    text      TEXT NOT NULL,
    vector    BLOB,                   -- float16, of the encoder named in `encoder`; NULL until it was needed
    encoder   TEXT,
    UNIQUE (type, text)
) STRICT;
CREATE TABLE canon_merges (
    canon     INTEGER PRIMARY KEY REFERENCES canons (n),
    into_     INTEGER NOT NULL REFERENCES canons (n),
    cosine    REAL NOT NULL,
    at        REAL NOT NULL
) STRICT;
CREATE INDEX canon_merges_into ON canon_merges (into_);
CREATE TABLE canon_uses (
    canon     INTEGER NOT NULL REFERENCES canons (n),
    digest    TEXT NOT NULL,
    PRIMARY KEY (canon, digest)
) STRICT, WITHOUT ROWID;
-- What calibration or a person thinks of an element of a skill's graph; a person's word is never overwritten.
CREATE TABLE reliabilities (
    digest    TEXT NOT NULL,
    element   TEXT NOT NULL,          -- node id, or "source relation target"
    value     REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
    origin    TEXT NOT NULL CHECK (origin IN ('calibration', 'person')),
    why       TEXT NOT NULL DEFAULT '',
    at        REAL NOT NULL,
    PRIMARY KEY (digest, element)
) STRICT, WITHOUT ROWID;
