package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"bakeoff/lab/archive/bundle"
)

// writer adds runs in a transaction.
type writer struct {
	ctx                                     context.Context
	copy                                    func(rows [][]any) error // nil: one query for each
	rows                                    [][]any                  // of comparisons, for copy
	run, label, series, host, find, compare *sql.Stmt
	known                                   map[[9]string]int64 // ids of series
	hosts                                   map[string]int64
	tx                                      *sql.Tx
	tallies                                 map[tallied]int
	seen                                    map[tallied]int  // without verdicts
	parts                                   map[string]int64 // ids, by digest
}

// tallied is a row of the table tally.
type tallied struct {
	lab           string
	host          int64
	contender     string
	primary, code int
}

func (a tallied) compare(b tallied) int {
	return cmp.Or(cmp.Compare(a.lab, b.lab), cmp.Compare(a.host, b.host), cmp.Compare(a.contender, b.contender),
		a.primary-b.primary, a.code-b.code)
}

// mostRows is how many comparisons wait for copy.
const mostRows = 10_000

func (x *Index) newWriter(ctx context.Context, conn *sql.Conn, tx *sql.Tx) (w *writer, err error) {
	w = &writer{ctx: ctx, known: map[[9]string]int64{}, hosts: map[string]int64{}, tx: tx, tallies: map[tallied]int{},
		parts: map[string]int64{}, seen: map[tallied]int{}}
	if x.dialect.copy != nil {
		w.copy = func(rows [][]any) error { return x.dialect.copy(ctx, conn, rows) }
	}
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.host, `INSERT INTO host (name, arch, cpu, machine) VALUES ($1, $2, $3, $4) ON CONFLICT (name)
			DO UPDATE SET arch = excluded.arch RETURNING id`},
		{&w.run, `INSERT INTO run (bundle, journal_sha256, name, lab, host, began, ended, reason, program, system, kernel,
			baseline, margin, blocks, samples, twin_differs, unplanned, bytes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
			ON CONFLICT (bundle) DO NOTHING RETURNING id`},
		{&w.label, `INSERT INTO label (run, name, value) VALUES ($1, $2, $3)`},
		{&w.find, `SELECT id FROM series WHERE contender = $1 AND driver = $2 AND baseline = $3 AND cell = $4 AND
			workload = $5 AND metric = $6 AND unit = $7 AND better = $8 AND scale = $9`},
		{&w.series, `INSERT INTO series (contender, driver, baseline, cell, workload, metric, unit, better, scale)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`},
		{&w.compare, `INSERT INTO comparison (run, series, began, verdict, ratio, low, high, blocks, is_primary)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`},
	} {
		if *s.to, err = tx.PrepareContext(ctx, s.text); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// close ends the statements. Those of a transaction that failed end with it.
func (w *writer) close() error {
	errs := []error{w.flush(), w.count()}
	for _, s := range []*sql.Stmt{w.run, w.label, w.series, w.host, w.find, w.compare} {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// count adds to the table tally, in the order of its key: two writers never wait for each other.
func (w *writer) count() error {
	for _, t := range slices.SortedFunc(maps.Keys(w.tallies), tallied.compare) {
		if _, err := w.tx.ExecContext(w.ctx, `INSERT INTO tally (lab, host, contender, is_primary, verdict, n)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (lab, host, contender, is_primary, verdict)
			DO UPDATE SET n = tally.n + excluded.n`, t.lab, t.host, t.contender, t.primary, t.code, w.tallies[t]); err != nil {
			return err
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(w.seen), tallied.compare) {
		if _, err := w.tx.ExecContext(w.ctx, `INSERT INTO seen (lab, host, contender, n) VALUES ($1, $2, $3, $4)
			ON CONFLICT (lab, host, contender) DO UPDATE SET n = seen.n + excluded.n`, t.lab, t.host, t.contender,
			w.seen[t]); err != nil {
			return err
		}
	}
	return nil
}

// flush adds the comparisons that wait.
func (w *writer) flush() error {
	if len(w.rows) == 0 {
		return nil
	}
	err := w.copy(w.rows)
	w.rows = w.rows[:0]
	return err
}

// add adds a run. Its text becomes harmless.
func (w *writer) add(e Entry) error {
	r := e.Record.Clean()
	host, err := w.hostOf(r)
	if err != nil {
		return err
	}
	facts := r.Facts[r.Baseline]
	var id int64
	err = w.run.QueryRowContext(w.ctx, e.Bundle, r.JournalSHA256, r.Run, r.Lab, host, stamp(r.Began), stamp(r.Ended),
		r.Reason, r.Program, facts["os"], facts["kernel"], r.Baseline, r.Margin, r.Blocks, r.Samples, flag(r.TwinDiffers),
		len(r.Unplanned), e.Bytes).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it is there
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		if _, err := w.label.ExecContext(w.ctx, id, name, r.Labels[name]); err != nil {
			return err
		}
	}
	own := map[string]bool{}
	for _, c := range r.Comparisons {
		if !own[c.Contender] {
			own[c.Contender] = true
			w.seen[tallied{lab: r.Lab, host: host, contender: c.Contender}]++
		}
		series, err := w.seriesOf(c)
		if err != nil {
			return err
		}
		code, err := codeOf(c.Verdict)
		if err != nil {
			return err
		}
		row := []any{id, series, r.Began.Unix(), code, c.Ratio, c.Low, c.High, c.Blocks, number(c.Primary)}
		w.tallies[tallied{r.Lab, host, c.Contender, number(c.Primary), code}]++
		if w.copy != nil {
			w.rows = append(w.rows, row)
		} else if _, err := w.compare.ExecContext(w.ctx, row...); err != nil {
			return err
		}
	}
	if len(w.rows) > mostRows {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.addPast(id, e)
}

func (w *writer) hostOf(r bundle.Record) (int64, error) {
	name := HostName(r.Machine)
	if id, ok := w.hosts[name]; ok {
		return id, nil
	}
	var id int64
	err := w.host.QueryRowContext(w.ctx, name, r.Machine["arch"], r.Machine["cpu.model"], r.Machine["machine"]).Scan(&id)
	w.hosts[name] = id
	return id, err
}

// HostName is the name of a machine in the index: its label machine, or what is known of it.
func HostName(machine map[string]string) string {
	if label := machine["machine"]; label != "" {
		return label
	}
	var known []string
	for _, k := range slices.Sorted(maps.Keys(machine)) {
		known = append(known, machine[k])
	}
	return cmp.Or(strings.Join(known, ", "), "unknown")
}

func (w *writer) seriesOf(c bundle.Comparison) (int64, error) {
	key := [9]string{c.Contender, c.Driver, c.Baseline, c.Cell, c.Workload, c.Metric, c.Unit, string(c.Better),
		string(c.Scale)}
	if id, ok := w.known[key]; ok {
		return id, nil
	}
	args := make([]any, len(key))
	for i, k := range key {
		args[i] = k
	}
	var id int64
	err := w.find.QueryRowContext(w.ctx, args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if _, err = w.series.ExecContext(w.ctx, args...); err == nil {
			err = w.find.QueryRowContext(w.ctx, args...).Scan(&id)
		}
	}
	w.known[key] = id
	return id, err
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flag is a number that may be unknown.
func flag(b *bool) any {
	if b == nil {
		return nil
	}
	return number(*b)
}
