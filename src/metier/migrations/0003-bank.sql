-- The bank of outcomes (SkillDelta): append-only rows. A row is one task under one arm, bound to stack and digest.
CREATE TABLE bank_tasks (
    task     INTEGER PRIMARY KEY,
    key      TEXT NOT NULL UNIQUE,   -- fingerprint of name and text
    name     TEXT NOT NULL,          -- the source's id, or a short fingerprint of the text
    text     TEXT                    -- NULL when it may not be kept
) STRICT;
CREATE TABLE bank_vectors (
    encoder  TEXT NOT NULL,
    task     INTEGER NOT NULL REFERENCES bank_tasks (task),
    vector   BLOB NOT NULL,          -- float32, little endian, length 1
    PRIMARY KEY (encoder, task)
) STRICT, WITHOUT ROWID;
CREATE TABLE outcomes (
    n          INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE, -- what makes a second import of the same row the same row
    task       INTEGER NOT NULL REFERENCES bank_tasks (task),
    skill      TEXT NOT NULL,        -- an id; a sorted JSON array of ids for a bundle; '' for a run without any skill
    digest     TEXT NOT NULL,        -- likewise
    stack      TEXT NOT NULL,
    family     TEXT,
    arm        TEXT NOT NULL CHECK (arm IN ('use', 'skip', 'pair')),
    success    REAL CHECK (success BETWEEN 0 AND 1),
    gain       REAL CHECK (gain BETWEEN -1 AND 1),   -- only for 'pair': a difference whose arms are not known apart
    tokens     REAL CHECK (tokens >= 0),
    repeat     INTEGER NOT NULL,
    at         REAL NOT NULL,
    origin     TEXT NOT NULL CHECK (origin IN ('check', 'person', 'ci', 'import', 'agent')),
    propensity REAL CHECK (propensity > 0 AND propensity <= 1),
    route      TEXT
) STRICT;
CREATE INDEX outcomes_skill ON outcomes (stack, skill, task, digest, arm);
CREATE INDEX outcomes_task ON outcomes (task, stack) WHERE skill = '';
-- What others say about a skill, from the file its release carries: shown, never counted.
CREATE TABLE bank_summaries (
    key      TEXT PRIMARY KEY,
    skill    TEXT NOT NULL,
    digest   TEXT NOT NULL,
    stack    TEXT NOT NULL,
    family   TEXT NOT NULL,
    n        INTEGER NOT NULL,
    tau      REAL NOT NULL,
    low      REAL NOT NULL,
    high     REAL NOT NULL,
    at       REAL NOT NULL
) STRICT;
-- A threshold fitted on a family's own past tasks.
CREATE TABLE bank_etas (
    stack    TEXT NOT NULL,
    family   TEXT NOT NULL,
    eta      REAL NOT NULL,
    how      TEXT NOT NULL,
    at       REAL NOT NULL,
    PRIMARY KEY (stack, family)
) STRICT;
-- Every process that a collection started, written before it starts: what a killed collection has already spent.
CREATE TABLE collect_attempts (
    n        INTEGER PRIMARY KEY,
    unit     TEXT NOT NULL,          -- key of the outcome it is meant to give
    at       REAL NOT NULL,
    ended    TEXT,                   -- done, transport, crash, check, mismatch; NULL while running or after a kill
    tokens   REAL,
    cost     REAL,
    model    TEXT,
    note     TEXT
) STRICT;
CREATE INDEX collect_attempts_unit ON collect_attempts (unit);
