-- Runs of which a row of part is the content: prune removes rows that no run uses.
CREATE INDEX past_work ON past (work);
CREATE INDEX past_facts ON past (facts);
