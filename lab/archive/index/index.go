// Package index is the index of an archive of runs: runs, series and comparisons as tables of
// SQLite, or of PostgreSQL where several people write. It holds nothing that the bundles do
// not: the archive makes it again from them.
package index

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/archive/bundle"
)

// Entry is a run of the index.
type Entry struct {
	Record bundle.Record
	Bundle string // digest of the manifest
	Bytes  int64  // of the bundle
	// Past is the run for a history (history.Run.Condensed); nil if its results are missing.
	Past *history.Run
	// Page is what pages say of the run (runsite.Describe), as JSON.
	Page []byte
}

// Index is an open index.
type Index struct {
	// Again says what second runs say of bundles; nil: nothing is known. The tables do not have it,
	// because results come and go without their bundle.
	Again Again

	db      *sql.DB
	dialect dialect
}

// Again says what second runs say of bundles.
type Again interface {
	// Replicated returns a text for each bundle that was replicated, which changes with the results.
	Replicated() (map[string]string, error)
	// Tell returns lines for a person about a bundle: the first says on how many machines it holds.
	Tell(ctx context.Context, digest string) ([]string, error)
}

// dialect is what the databases do differently.
type dialect struct {
	name string
	id   string // type of a key that the database chooses
	lock string // query that keeps other migrations away until the transaction ends
	text string // type of texts, which sort by their bytes
	list string // rows with the texts of the JSON array $1
	// bulk is what a connection does before it adds many runs; "": nothing.
	bulk string
	// analyze counts the rows of the tables, for plans.
	analyze string
	// copy adds rows to the table comparison in a transaction of conn; nil: one query for
	// each is as fast.
	copy func(ctx context.Context, conn *sql.Conn, rows [][]any) error
	// notify tells those who watch, in a transaction; "": they see it themselves.
	notify string
	// watch calls changed after each change by others, until ctx or the connection ends.
	watch func(ctx context.Context, conn *sql.Conn, changed func()) error
	// check refuses a question that the driver cannot read; nil: it reads all.
	check func(conn any, text string) error
}

//go:embed sql
var migrations embed.FS

// Open opens the index at place: the path of a file, or postgres://….
func Open(ctx context.Context, place string) (*Index, error) {
	if IsServer(place) {
		return openPostgres(ctx, place)
	}
	return openSQLite(ctx, place)
}

// IsServer reports whether place names a database of a server.
func IsServer(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// Close ends the connections.
func (x *Index) Close() error { return fault.Wrap(fault.Lab, "index", x.db.Close()) }

// migrate brings the tables up to the version of this program. Of tables that have it, it
// changes nothing: a user may have only the right to read, and a writer need not be waited for.
func (x *Index) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "sql/*.sql")
	if err != nil {
		return err
	}
	var have sql.NullInt64
	const version = `SELECT max(version) FROM migration`
	if err := x.db.QueryRowContext(ctx, version).Scan(&have); err == nil && have.Int64 == int64(len(files)) {
		return nil
	}
	return x.inTransaction(ctx, func(_ *sql.Conn, tx *sql.Tx) error {
		if x.dialect.lock != "" {
			if _, err := tx.ExecContext(ctx, x.dialect.lock); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migration (version BIGINT PRIMARY KEY)`); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, version).Scan(&have); err != nil {
			return err
		}
		if n := int64(len(files)); have.Int64 > n {
			return fault.WithFix(fault.New(fault.Unsupported, "the index has version %d; this program supports "+
				"versions up to %d", have.Int64, n),
				"use the newer bakeoff that wrote it")
		}
		for i, name := range files[have.Int64:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			types := strings.NewReplacer("%ID%", x.dialect.id, "TEXT", x.dialect.text)
			for statement := range strings.SplitSeq(types.Replace(string(text)), ";\n") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := tx.ExecContext(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO migration (version) VALUES ($1)`, have.Int64+int64(i)+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// inTransaction calls do in a transaction, and commits it if do returns nil.
func (x *Index) inTransaction(ctx context.Context, do func(*sql.Conn, *sql.Tx) error) error {
	conn, err := x.db.Conn(ctx)
	if err != nil {
		return fault.Op("index", err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fault.Op("index", err)
	}
	if err := do(conn, tx); err != nil {
		_ = tx.Rollback() // err says more
		return fault.Op("index", err)
	}
	return fault.Op("index", tx.Commit())
}

// changeRuns is within for a change of runs.
func (x *Index) changeRuns(ctx context.Context, do func(*sql.Conn, *sql.Tx) error) error {
	return x.inTransaction(ctx, func(conn *sql.Conn, tx *sql.Tx) error {
		if err := do(conn, tx); err != nil || x.dialect.notify == "" {
			return err
		}
		_, err := tx.ExecContext(ctx, x.dialect.notify)
		return err
	})
}

// Watch calls changed once when it watches, and after each change of runs, until ctx ends or
// the connection breaks.
func (x *Index) Watch(ctx context.Context, changed func()) error {
	conn, err := x.db.Conn(ctx)
	if err != nil {
		return fault.Op("index", err)
	}
	defer func() { // it may listen, or be in the middle of something
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	return fault.Op("index", x.dialect.watch(ctx, conn, changed))
}

// Add adds runs in one transaction. A bundle that is in the index stays as it is.
func (x *Index) Add(ctx context.Context, entries ...Entry) error {
	return x.changeRuns(ctx, func(conn *sql.Conn, tx *sql.Tx) error {
		w, err := x.newWriter(ctx, conn, tx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := w.add(e); err != nil {
				return fmt.Errorf("run %s: %w", e.Record.Run, err)
			}
		}
		return w.close()
	})
}

// Replace empties the index and adds the runs that next gives until it returns false, in
// one transaction. only limits what is removed to these bundles; nil removes all.
func (x *Index) Replace(ctx context.Context, only []string, next func() (Entry, bool, error)) error {
	err := x.changeRuns(ctx, func(conn *sql.Conn, tx *sql.Tx) error {
		if x.dialect.bulk != "" {
			if _, err := tx.ExecContext(ctx, x.dialect.bulk); err != nil {
				return err
			}
		}
		if only == nil {
			for _, table := range []string{"past", "part", "seen", "tally", "comparison", "label", "run",
				"series", "host"} {
				if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
					return err
				}
			}
		}
		if err := x.remove(ctx, tx, only); err != nil {
			return err
		}
		w, err := x.newWriter(ctx, conn, tx)
		if err != nil {
			return err
		}
		for {
			e, more, err := next()
			if err != nil {
				return err
			}
			if !more {
				return w.close()
			}
			if err := w.add(e); err != nil {
				return fmt.Errorf("run %s: %w", e.Record.Run, err)
			}
		}
	})
	if err != nil {
		return err
	}
	_, err = x.db.ExecContext(ctx, x.dialect.analyze) // or the database plans for an empty table
	return fault.Op("index", err)
}

// Remove removes bundles.
func (x *Index) Remove(ctx context.Context, bundles ...string) error {
	return x.changeRuns(ctx, func(_ *sql.Conn, tx *sql.Tx) error { return x.remove(ctx, tx, bundles) })
}

// uncount takes the comparisons of bundles out of tally.
const uncount = `UPDATE tally SET n = tally.n - gone.n FROM (SELECT r.lab, r.host, s.contender, c.is_primary, c.verdict,
	count(*) AS n FROM comparison c JOIN run r ON r.id = c.run JOIN series s ON s.id = c.series WHERE r.bundle IN %LIST%
	GROUP BY r.lab, r.host, s.contender, c.is_primary, c.verdict) AS gone WHERE tally.lab = gone.lab AND
	tally.host = gone.host AND tally.contender = gone.contender AND tally.is_primary = gone.is_primary AND
	tally.verdict = gone.verdict`

// unsee takes the contenders of bundles out of seen.
const unsee = `UPDATE seen SET n = seen.n - gone.n FROM (SELECT r.lab, r.host, s.contender, count(DISTINCT c.run) AS n
	FROM comparison c JOIN run r ON r.id = c.run JOIN series s ON s.id = c.series WHERE r.bundle IN %LIST%
	GROUP BY r.lab, r.host, s.contender) AS gone
	WHERE seen.lab = gone.lab AND seen.host = gone.host AND seen.contender = gone.contender`

// removed are the queries that remove bundles, in their order.
var removed = []string{uncount, unsee,
	"DELETE FROM comparison WHERE run IN (SELECT id FROM run WHERE bundle IN %LIST%)",
	"DELETE FROM label WHERE run IN (SELECT id FROM run WHERE bundle IN %LIST%)",
	"DELETE FROM past WHERE run IN (SELECT id FROM run WHERE bundle IN %LIST%)",
	"DELETE FROM run WHERE bundle IN %LIST%"}

// mostRemoved is how many bundles a query removes.
const mostRemoved = 10_000

func (x *Index) remove(ctx context.Context, tx *sql.Tx, bundles []string) error {
	if len(bundles) == 0 {
		return nil
	}
	parts := map[int64]bool{}
	for some := range slices.Chunk(bundles, mostRemoved) {
		list, err := json.Marshal(some)
		if err != nil {
			return err
		}
		if err := x.partsOf(ctx, tx, string(list), parts); err != nil {
			return err
		}
		for _, text := range removed {
			if _, err := tx.ExecContext(ctx, strings.ReplaceAll(text, "%LIST%", x.dialect.list), string(list)); err != nil {
				return err
			}
		}
	}
	for _, table := range []string{"tally", "seen"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE n = 0"); err != nil {
			return err
		}
	}
	return removeParts(ctx, tx, parts)
}

// Touch tells those who watch that something about a bundle changed that the tables do not have.
func (x *Index) Touch(ctx context.Context, digest string) error {
	return x.changeRuns(ctx, func(_ *sql.Conn, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE run SET bytes = bytes WHERE bundle = $1", digest)
		return err
	})
}

// Has returns which of the bundles the index has.
func (x *Index) Has(ctx context.Context, digest string) (bool, error) {
	var n int
	err := x.db.QueryRowContext(ctx, `SELECT count(*) FROM run WHERE bundle = $1`, digest).Scan(&n)
	return n > 0, fault.Op("index", err)
}

// Bundles lists the digests of all bundles, sorted.
func (x *Index) Bundles(ctx context.Context) (out []string, err error) {
	rows, err := x.db.QueryContext(ctx, `SELECT bundle FROM run ORDER BY bundle`)
	if err != nil {
		return nil, fault.Op("index", err)
	}
	defer rows.Close()
	for rows.Next() {
		var b string
		if err := rows.Scan(&b); err != nil {
			return nil, fault.Op("index", err)
		}
		out = append(out, b)
	}
	return out, fault.Op("index", rows.Err())
}

// Run is a line of a list.
type Run struct {
	ID          int64             `json:"-"`
	Bundle      string            `json:"bundle"`
	Name        string            `json:"run"`
	Lab         string            `json:"lab"`
	Host        string            `json:"host"`
	Began       string            `json:"began"`
	Ended       string            `json:"ended"`
	Reason      string            `json:"reason"`
	Kernel      string            `json:"kernel"`
	Blocks      int               `json:"blocks"`
	Bytes       int64             `json:"bytes"`
	TwinDiffers *bool             `json:"twin_differs"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Better, Equivalent, Inconclusive and Worse count the primary comparisons.
	Better       int `json:"better"`
	Equivalent   int `json:"equivalent"`
	Inconclusive int `json:"inconclusive"`
	Worse        int `json:"worse"`
}

// Filter chooses runs. "" and nil choose all.
type Filter struct {
	Lab, Host, Name string
	Labels          map[string]string
	// Before is the last run of the page before: its beginning and bundle.
	BeforeBegan, BeforeBundle string
	Most                      int // 0: 50
}

func (f Filter) most() int { return cmp.Or(f.Most, 50) }

// conditions are those of a question about run r and host h, with the values in it.
func (f Filter) conditions() (text string, args []any) {
	var where []string
	is := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, condition)
	}
	if f.Lab != "" {
		is("r.lab = ?", f.Lab)
	}
	if f.Host != "" {
		is("h.name = ?", f.Host)
	}
	if f.Name != "" {
		is("r.name = ?", f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		is("r.id IN (SELECT run FROM label WHERE name = ? AND value = ?)", name, f.Labels[name])
	}
	if f.BeforeBegan != "" {
		is("(r.began < ? OR r.began = ? AND r.bundle < ?)", f.BeforeBegan, f.BeforeBegan, f.BeforeBundle)
	}
	if len(where) > 0 {
		text = " WHERE " + strings.Join(where, " AND ")
	}
	return text, args
}

// List lists runs, the newest first.
func (x *Index) List(ctx context.Context, f Filter) ([]Run, error) {
	where, args := f.conditions()
	query := `SELECT r.id, r.bundle, r.name, r.lab, h.name, r.began, r.ended, r.reason, r.kernel, r.blocks, r.bytes,
		r.twin_differs FROM run r JOIN host h ON h.id = r.host`
	query += where + fmt.Sprintf(" ORDER BY r.began DESC, r.bundle DESC LIMIT %d", f.most())
	rows, err := x.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fault.Op("index", err)
	}
	defer rows.Close()
	out := []Run{}
	for rows.Next() {
		var r Run
		var twin sql.NullInt64
		if err := rows.Scan(&r.ID, &r.Bundle, &r.Name, &r.Lab, &r.Host, &r.Began, &r.Ended, &r.Reason, &r.Kernel, &r.Blocks,
			&r.Bytes, &twin); err != nil {
			return nil, fault.Op("index", err)
		}
		if differs := twin.Int64 != 0; twin.Valid {
			r.TwinDiffers = &differs
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.Op("index", err)
	}
	return out, fault.Op("index", x.describe(ctx, out))
}

// mostAtOnce is how many runs one question of describe names.
const mostAtOnce = 500

// describe adds the labels and the counts of verdicts.
func (x *Index) describe(ctx context.Context, all []Run) error {
	for runs := range slices.Chunk(all, mostAtOnce) {
		at, ids, names := map[int64]*Run{}, []any{}, []string{}
		for i := range runs {
			at[runs[i].ID] = &runs[i]
			ids = append(ids, runs[i].ID)
			names = append(names, fmt.Sprintf("$%d", len(ids)))
		}
		these := "(" + strings.Join(names, ", ") + ")"
		err := x.each(ctx, `SELECT run, verdict, count(*) FROM comparison WHERE is_primary = 1 AND run IN `+these+
			` GROUP BY run, verdict`, ids, func(rows *sql.Rows) error {
			var id int64
			var code, n int
			if err := rows.Scan(&id, &code, &n); err != nil {
				return err
			}
			r := at[id]
			switch verdicts[code] {
			case analysis.Better:
				r.Better = n
			case analysis.Equivalent:
				r.Equivalent = n
			case analysis.Inconclusive:
				r.Inconclusive = n
			case analysis.Worse:
				r.Worse = n
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = x.each(ctx, `SELECT run, name, value FROM label WHERE run IN `+these, ids, func(rows *sql.Rows) error {
			var id int64
			var name, value string
			if err := rows.Scan(&id, &name, &value); err != nil {
				return err
			}
			r := at[id]
			if r.Labels == nil {
				r.Labels = map[string]string{}
			}
			r.Labels[name] = value
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) each(ctx context.Context, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := x.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Find returns the digests of the bundles that text names: a digest, the beginning of one,
// or the name of a run.
func (x *Index) Find(ctx context.Context, text string) (out []string, err error) {
	low, high := "sha256:"+strings.TrimPrefix(text, "sha256:"), ""
	if bundle.Matches(low, text) {
		high = low + "g" // follows every digit
	}
	err = x.each(ctx, `SELECT bundle FROM run WHERE name = $1 OR bundle >= $2 AND bundle < $3 ORDER BY bundle LIMIT 20`,
		[]any{text, low, high}, func(rows *sql.Rows) error {
			var b string
			err := rows.Scan(&b)
			out = append(out, b)
			return err
		})
	return out, fault.Op("index", err)
}

// stamp is a time as the tables have it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// verdicts are the codes of verdicts in the table comparison.
var verdicts = []analysis.Verdict{"", analysis.Better, analysis.Equivalent, analysis.Inconclusive, analysis.Worse}

func codeOf(v analysis.Verdict) (int, error) {
	i := slices.Index(verdicts, v)
	if i < 0 {
		return 0, fault.New(fault.Invalid, "the verdict %.40q is unknown", string(v))
	}
	return i, nil
}
