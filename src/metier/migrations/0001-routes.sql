-- What was routed, append-only. `text` follows log.text: the request, its hash, or nothing.
CREATE TABLE routes (
    id       TEXT PRIMARY KEY,
    at       REAL NOT NULL,
    text     TEXT,
    hash     TEXT,
    stack    TEXT NOT NULL,
    family   TEXT,
    session  TEXT,
    source   TEXT NOT NULL,          -- cli, api, mcp, hook, http
    tokens   INTEGER NOT NULL,
    slate    TEXT NOT NULL           -- JSON: candidates (id, name, digest, score, level, reason, tau, propensity), cover, note, steps
) STRICT;
CREATE INDEX routes_at ON routes (at);
CREATE INDEX routes_session ON routes (session) WHERE session IS NOT NULL;
