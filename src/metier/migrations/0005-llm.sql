-- Answers of language models, content-addressed: the same question to the same model is never paid for twice.
CREATE TABLE llm_answers (
    key      TEXT PRIMARY KEY,       -- sha256 of model, temperature, schema, prompt and sample (methods 1.3)
    model    TEXT NOT NULL,
    answer   TEXT NOT NULL,          -- JSON, valid under the schema that was asked for
    sent     INTEGER NOT NULL,       -- tokens
    received INTEGER NOT NULL,
    at       REAL NOT NULL
) STRICT;
CREATE INDEX llm_answers_model ON llm_answers (model);
-- What a model wrote for a text of ours: requests that a skill answers, hypothetical skills for a request.
CREATE TABLE expansions (
    key      TEXT PRIMARY KEY,       -- sha256 of model, prompt digest and text
    kind     TEXT NOT NULL CHECK (kind IN ('requests', 'skills')),
    model    TEXT NOT NULL,
    subject  TEXT NOT NULL,          -- id of the skill; '' for a request
    texts    TEXT NOT NULL,          -- JSON array
    at       REAL NOT NULL
) STRICT;
CREATE INDEX expansions_subject ON expansions (kind, model, subject);
-- Whether a model's expansions helped when it was tried (methods 1.3a); without a row it is not used.
CREATE TABLE qualifications (
    model    TEXT NOT NULL,
    prompt   TEXT NOT NULL,          -- digest of the prompts it was tried with
    encoder  TEXT NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('requests', 'skills')),
    passed   INTEGER NOT NULL CHECK (passed IN (0, 1)),
    report   TEXT NOT NULL,          -- JSON
    at       REAL NOT NULL,
    PRIMARY KEY (model, prompt, encoder, kind)
) STRICT;
