-- %ID% is the type of a key that the database chooses. Times are text in UTC, such as
-- 2026-01-02T03:04:05Z, so that both databases sort and compare them alike.
CREATE TABLE host (
	id %ID%,
	name TEXT NOT NULL UNIQUE,
	arch TEXT NOT NULL,
	cpu TEXT NOT NULL,
	machine TEXT NOT NULL
);
CREATE TABLE run (
	id %ID%,
	bundle TEXT NOT NULL UNIQUE,
	journal_sha256 TEXT NOT NULL,
	name TEXT NOT NULL,
	lab TEXT NOT NULL,
	host BIGINT NOT NULL REFERENCES host (id),
	began TEXT NOT NULL,
	ended TEXT NOT NULL,
	reason TEXT NOT NULL,
	program TEXT NOT NULL,
	system TEXT NOT NULL,
	kernel TEXT NOT NULL,
	baseline TEXT NOT NULL,
	margin DOUBLE PRECISION NOT NULL,
	blocks BIGINT NOT NULL,
	samples BIGINT NOT NULL,
	twin_differs BIGINT,
	unplanned BIGINT NOT NULL,
	bytes BIGINT NOT NULL
);
CREATE INDEX run_lab ON run (lab, host, began);
CREATE INDEX run_began ON run (began);
CREATE INDEX run_name ON run (name);
CREATE INDEX run_journal ON run (journal_sha256);
CREATE TABLE label (
	run BIGINT NOT NULL REFERENCES run (id),
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (run, name)
);
CREATE INDEX label_value ON label (name, value);
CREATE TABLE series (
	id %ID%,
	contender TEXT NOT NULL,
	driver TEXT NOT NULL,
	baseline TEXT NOT NULL,
	cell TEXT NOT NULL,
	workload TEXT NOT NULL,
	metric TEXT NOT NULL,
	unit TEXT NOT NULL,
	better TEXT NOT NULL,
	scale TEXT NOT NULL,
	UNIQUE (contender, driver, baseline, cell, workload, metric, unit, better, scale)
);
CREATE TABLE verdict (
	id BIGINT PRIMARY KEY,
	name TEXT NOT NULL
);
INSERT INTO verdict (id, name) VALUES (0, ''), (1, 'better'), (2, 'equivalent'), (3, 'inconclusive'), (4, 'worse');
CREATE TABLE comparison (
	run BIGINT NOT NULL REFERENCES run (id),
	series BIGINT NOT NULL REFERENCES series (id),
	began BIGINT NOT NULL, -- of the run, seconds since 1970
	verdict BIGINT NOT NULL REFERENCES verdict (id),
	ratio DOUBLE PRECISION,
	low DOUBLE PRECISION,
	high DOUBLE PRECISION,
	blocks BIGINT NOT NULL,
	is_primary BIGINT NOT NULL
);
CREATE INDEX comparison_run ON comparison (run);
CREATE INDEX comparison_series ON comparison (series, began, run);
CREATE INDEX comparison_worse ON comparison (series, began) WHERE verdict = 4;
CREATE VIEW runs AS
	SELECT r.id, r.bundle, r.name, r.lab, h.name AS host, h.arch, h.cpu, r.began, r.ended, r.reason, r.program, r.system,
		r.kernel, r.baseline, r.margin, r.blocks, r.samples, r.twin_differs, r.unplanned, r.bytes
	FROM run r JOIN host h ON h.id = r.host;
CREATE VIEW comparisons AS
	SELECT c.run, r.name, r.bundle, r.lab, h.name AS host, r.began, s.contender, s.driver, s.baseline, s.cell, s.workload,
		s.metric, s.unit, s.better, s.scale, v.name AS verdict, c.ratio, c.low, c.high, c.blocks, c.is_primary
	FROM comparison c JOIN run r ON r.id = c.run JOIN host h ON h.id = r.host JOIN series s ON s.id = c.series
		JOIN verdict v ON v.id = c.verdict;
