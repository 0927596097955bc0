package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
)

// work is what the runs of a lab have in common until the lab file changes.
type work struct {
	Contenders []analysis.Contender
	Cells      []analysis.Cell
}

// addPast adds what a history needs of a run.
func (w *writer) addPast(id int64, e Entry) error {
	if e.Past == nil {
		return nil
	}
	past := *e.Past
	var ids [2]int64
	for i, part := range []any{work{past.Results.Contenders, past.Results.Cells}, past.Facts} {
		var err error
		if ids[i], err = w.partOf(part); err != nil {
			return err
		}
	}
	past.Results.Contenders, past.Results.Cells, past.Facts = nil, nil, nil
	text, err := json.Marshal(past)
	if err != nil {
		return err
	}
	_, err = w.tx.ExecContext(w.ctx, `INSERT INTO past (run, work, facts, content, page) VALUES ($1, $2, $3, $4, $5)`,
		id, ids[0], ids[1], string(text), string(e.Page))
	return err
}

// partOf returns the row of the table part that has the JSON of v.
func (w *writer) partOf(v any) (id int64, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	digest := hexsum.Of(text)
	if id, ok := w.parts[digest]; ok {
		return id, nil
	}
	err = w.tx.QueryRowContext(w.ctx, `INSERT INTO part (sha256, content) VALUES ($1, $2) ON CONFLICT (sha256)
		DO UPDATE SET sha256 = excluded.sha256 RETURNING id`, digest, string(text)).Scan(&id)
	w.parts[digest] = id
	return id, err
}

// partsOf adds the rows of the table part that bundles use to parts. list is their JSON.
func (x *Index) partsOf(ctx context.Context, tx *sql.Tx, list string, parts map[int64]bool) error {
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT p.work, p.facts FROM past p JOIN run r ON r.id = p.run
		WHERE r.bundle IN `+x.dialect.list, list)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var work, facts int64
		if err := rows.Scan(&work, &facts); err != nil {
			return err
		}
		parts[work], parts[facts] = true, true
	}
	return rows.Err()
}

// removeParts removes those of parts that no run uses, in the order of their ids: two
// writers never wait for each other. The UPDATE waits for a writer that is about to use one,
// so that the DELETE sees what it wrote.
func removeParts(ctx context.Context, tx *sql.Tx, parts map[int64]bool) error {
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		for _, text := range []string{`UPDATE part SET sha256 = sha256 WHERE id = $1`,
			`DELETE FROM part WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM past WHERE work = $1)
				AND NOT EXISTS (SELECT 1 FROM past WHERE facts = $1)`} {
			if _, err := tx.ExecContext(ctx, text, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Past reads runs for package history, the newest f.Most and their copies, which have the same
// journal. They have no samples, and their Folder is the digest of the bundle. lacking are the
// runs without what a history needs: those that an earlier bakeoff added, until the next rebuild.
func (x *Index) Past(ctx context.Context, f Filter) (out []history.Run, lacking []history.Unread, err error) {
	where, args := f.conditions()
	const from = " FROM run r JOIN host h ON h.id = r.host"
	newest := " r.journal_sha256 IN (SELECT r.journal_sha256" + from + where + fmt.Sprintf(
		" GROUP BY r.journal_sha256 ORDER BY max(r.began) DESC, max(r.bundle) DESC LIMIT %d)", f.most())
	if where == "" {
		where = " WHERE" + newest
	} else {
		where += " AND" + newest
	}
	type row struct {
		content     string
		work, facts int64
	}
	var rows []row
	works, facts := map[int64]work{}, map[int64]map[string]map[string]string{}
	err = x.each(ctx, `SELECT p.content, p.work, p.facts, r.name, r.lab, r.began`+from+`
		LEFT JOIN past p ON p.run = r.id`+where+" ORDER BY r.began DESC, r.bundle DESC", args, func(in *sql.Rows) error {
		var text sql.NullString
		var a, b sql.NullInt64
		var name, lab, began string
		if err := in.Scan(&text, &a, &b, &name, &lab, &began); err != nil {
			return err
		}
		if !text.Valid {
			u := history.Unread{Folder: name, Reason: "the index lacks its values", Lab: lab}
			u.At, _ = time.Parse(time.RFC3339, began) // zero: unknown
			safetext.Scrub(&u, safetext.Line)
			lacking = append(lacking, u)
			return nil
		}
		works[a.Int64], facts[b.Int64] = work{}, nil
		rows = append(rows, row{text.String, a.Int64, b.Int64})
		return nil
	})
	for id := range works {
		if err == nil {
			works[id], err = readPart[work](ctx, x, id)
		}
	}
	for id := range facts {
		if err == nil {
			facts[id], err = readPart[map[string]map[string]string](ctx, x, id)
		}
	}
	for _, r := range rows {
		var run history.Run
		if err == nil {
			err = json.Unmarshal([]byte(r.content), &run)
		}
		if err != nil {
			return nil, nil, fault.Op("index", err)
		}
		safetext.Scrub(&run, safetext.Line)
		run.Results.Contenders, run.Results.Cells, run.Facts = works[r.work].Contenders, works[r.work].Cells, facts[r.facts]
		out = append(out, run)
	}
	return out, lacking, fault.Op("index", err)
}

func readPart[T any](ctx context.Context, x *Index, id int64) (out T, err error) {
	var text string
	if err := x.db.QueryRowContext(ctx, `SELECT content FROM part WHERE id = $1`, id).Scan(&text); err != nil {
		return out, err
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return out, err
	}
	safetext.Scrub(&out, safetext.Line)
	return out, nil
}
