package index

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// Brief is a run in a list of all runs.
type Brief struct {
	ID                             int64
	Bundle, Name, Lab, Host, Began string
	// Lacking says that the index has no results of the run, until the next rebuild.
	Lacking bool
}

// Briefs lists all runs, the newest first.
func (x *Index) Briefs(ctx context.Context) (out []Brief, err error) {
	err = x.each(ctx, `SELECT r.id, r.bundle, r.name, r.lab, h.name, r.began, p.run IS NULL FROM run r
		JOIN host h ON h.id = r.host LEFT JOIN past p ON p.run = r.id
		ORDER BY r.began DESC, r.bundle DESC`, nil, func(rows *sql.Rows) error {
		var b Brief
		err := rows.Scan(&b.ID, &b.Bundle, &b.Name, &b.Lab, &b.Host, &b.Began, &b.Lacking)
		out = append(out, b)
		return err
	})
	return out, fault.Op("index", err)
}

// Seen is the number of runs of a contender.
type Seen struct {
	Lab, Host, Contender string
	Runs                 int
}

// Contenders lists the contenders of each lab and machine.
func (x *Index) Contenders(ctx context.Context) (out []Seen, err error) {
	err = x.each(ctx, `SELECT s.lab, h.name, s.contender, s.n FROM seen s JOIN host h ON h.id = s.host
		ORDER BY s.contender, s.lab, h.name`, nil, func(rows *sql.Rows) error {
		var s Seen
		err := rows.Scan(&s.Lab, &s.Host, &s.Contender, &s.Runs)
		out = append(out, s)
		return err
	})
	return out, fault.Op("index", err)
}

// Labels are the labels of all runs, by the ID of the run: "commit c0ffee, machine box-1".
func (x *Index) Labels(ctx context.Context) (map[int64]string, error) {
	out := map[int64]string{}
	err := x.each(ctx, `SELECT run, name, value FROM label ORDER BY run, name`, nil, func(rows *sql.Rows) error {
		var id int64
		var name, value string
		err := rows.Scan(&id, &name, &value)
		if out[id] != "" {
			out[id] += ", "
		}
		out[id] += name + " " + value
		return err
	})
	return out, fault.Op("index", err)
}

// Pages returns what pages say of runs (Entry.Page), by ID. Those that the index does not
// have are missing.
func (x *Index) Pages(ctx context.Context, ids []int64) (map[int64][]byte, error) {
	out := make(map[int64][]byte, len(ids))
	for part := range slices.Chunk(ids, mostAtOnce) {
		args, names := make([]any, len(part)), make([]string, len(part))
		for i, id := range part {
			args[i], names[i] = id, fmt.Sprintf("$%d", i+1)
		}
		err := x.each(ctx, `SELECT run, page FROM past WHERE run IN (`+strings.Join(names, ", ")+`)`, args,
			func(rows *sql.Rows) error {
				var id int64
				var page string
				err := rows.Scan(&id, &page)
				if page != "" {
					out[id] = []byte(page)
				}
				return err
			})
		if err != nil {
			return nil, fault.Op("index", err)
		}
	}
	return out, nil
}
