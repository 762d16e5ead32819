-- What happened to a shown skill: offered, loaded, used. Never a judgement. Append-only but for `forget`.
CREATE TABLE events (
    n        INTEGER PRIMARY KEY,
    route    TEXT NOT NULL,
    skill    TEXT NOT NULL,
    digest   TEXT NOT NULL DEFAULT '',
    what     TEXT NOT NULL CHECK (what IN ('offered', 'loaded', 'used', 'compacted')),
    session  TEXT,
    at       REAL NOT NULL
) STRICT;
CREATE INDEX events_session ON events (session, n) WHERE session IS NOT NULL;
CREATE INDEX events_skill ON events (skill, what);
-- Small facts worth keeping between processes: registered roots, a session's model, time of the last rescan.
CREATE TABLE facts (
    key      TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    at       REAL NOT NULL
) STRICT;
