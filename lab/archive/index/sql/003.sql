-- Runs of which a row of part is the content: prune removes rows that no run uses.
CREATE INDEX past_work ON past (work);
CREATE INDEX past_facts ON past (facts);
-- A question about verdicts that names no machine looks up none.
DROP VIEW verdicts;
CREATE VIEW verdicts AS
	SELECT t.lab, h.name AS host, t.contender, t.is_primary, v.name AS verdict, CAST(t.n AS INTEGER) AS comparisons
	FROM tally t LEFT JOIN host h ON h.id = t.host LEFT JOIN verdict v ON v.id = t.verdict;
