-- tally counts comparisons, so that no page counts millions of rows. Writers keep it right.
CREATE TABLE tally (
	lab TEXT NOT NULL,
	host BIGINT NOT NULL REFERENCES host (id),
	contender TEXT NOT NULL,
	is_primary BIGINT NOT NULL,
	verdict BIGINT NOT NULL REFERENCES verdict (id),
	n BIGINT NOT NULL,
	PRIMARY KEY (lab, host, contender, is_primary, verdict)
);
INSERT INTO tally (lab, host, contender, is_primary, verdict, n)
	SELECT r.lab, r.host, s.contender, c.is_primary, c.verdict, count(*)
	FROM comparison c JOIN run r ON r.id = c.run JOIN series s ON s.id = c.series
	GROUP BY r.lab, r.host, s.contender, c.is_primary, c.verdict;
-- seen counts the runs of contenders.
CREATE TABLE seen (
	lab TEXT NOT NULL,
	host BIGINT NOT NULL REFERENCES host (id),
	contender TEXT NOT NULL,
	n BIGINT NOT NULL,
	PRIMARY KEY (lab, host, contender)
);
INSERT INTO seen (lab, host, contender, n)
	SELECT r.lab, r.host, s.contender, count(DISTINCT c.run)
	FROM comparison c JOIN run r ON r.id = c.run JOIN series s ON s.id = c.series
	GROUP BY r.lab, r.host, s.contender;
CREATE VIEW verdicts AS
	SELECT t.lab, h.name AS host, t.contender, t.is_primary, v.name AS verdict, CAST(t.n AS INTEGER) AS comparisons
	FROM tally t JOIN host h ON h.id = t.host JOIN verdict v ON v.id = t.verdict;
-- The index has all that a series over time shows. A database leaves out a LEFT JOIN of
-- which a question uses no column.
DROP INDEX comparison_series;
CREATE INDEX comparison_series ON comparison (series, began, run, verdict, ratio, low, high, blocks, is_primary);
DROP VIEW comparisons;
CREATE VIEW comparisons AS
	SELECT c.run, r.name, r.bundle, r.lab, h.name AS host, r.began, c.began AS seconds, s.contender, s.driver, s.baseline,
		s.cell, s.workload, s.metric, s.unit, s.better, s.scale, v.name AS verdict, c.ratio, c.low, c.high, c.blocks,
		c.is_primary
	FROM comparison c JOIN series s ON s.id = c.series LEFT JOIN run r ON r.id = c.run
		LEFT JOIN host h ON h.id = r.host LEFT JOIN verdict v ON v.id = c.verdict;
-- past has what a history needs of each run, as JSON (history.Run.Condensed). What is the same
-- in many runs is in part: contenders and cells, and facts. page is what pages say of the run.
CREATE TABLE part (
	id %ID%,
	sha256 TEXT NOT NULL UNIQUE,
	content TEXT NOT NULL
);
CREATE TABLE past (
	run BIGINT PRIMARY KEY REFERENCES run (id),
	work BIGINT NOT NULL REFERENCES part (id),
	facts BIGINT NOT NULL REFERENCES part (id),
	content TEXT NOT NULL,
	page TEXT NOT NULL
);
