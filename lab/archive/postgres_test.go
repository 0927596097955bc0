package archive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/archive/index/postgrestest"
	"bakeoff/lab/store/storetest"
)

// PostgreSQL gives the answers of SQLite, to the questions of the guide too, and cannot be
// changed by a question. Two stores share it.
func TestPostgres(t *testing.T) {
	place := postgrestest.Test(t).Place
	one, two := create(t, archive.Config{Index: place}), create(t, archive.Config{Index: place})
	file := create(t, archive.Config{})
	add(t, one, quick)
	add(t, two, failures)
	add(t, file, quick)
	add(t, file, failures)
	questions := append(questionsOfTheGuide(t), `SELECT name, host, arch, cpu, kernel, began, ended, blocks, samples,
		twin_differs, bytes FROM runs ORDER BY name`, `SELECT name, contender, driver, cell, metric, better, scale,
		verdict, ratio, low, high, blocks, is_primary FROM comparisons ORDER BY 1, 2, 3, 4, 5`)
	compare := func() {
		t.Helper()
		for _, q := range questions {
			a, b := rows(t, one.Index, q), rows(t, file.Index, q)
			if !slices.EqualFunc(a, b, slices.Equal[[]any]) {
				t.Errorf("%s:\nPostgreSQL %v\nSQLite     %v", q, a, b)
			}
		}
	}
	compare()
	if n, err := one.Rebuild(t.Context(), nil); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	compare()
	for _, text := range append(slices.Clone(writing), "SET TRANSACTION READ WRITE", "COMMIT; DELETE FROM run",
		"SELECT set_config('transaction_read_only', 'off', false)",
		"DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM label; END $$") {
		if err := ask(t, one.Index, text); !fault.Is(err, fault.Invalid) && text != "" && text != ";" &&
			text != "-- nothing" {
			t.Errorf("%q: %v", text, err)
		}
	}
	compare()
	if got, err := one.Resolve(t.Context(), "20261123T030217Z-quick"); err != nil || !one.Has(got) {
		t.Errorf("%s, %v", got, err)
	}
	if runs, err := two.Index.List(t.Context(), index.Filter{Lab: "quick"}); err != nil || len(runs) == 0 {
		t.Errorf("%v, %v", runs, err)
	}
}

func TestWatchPostgres(t *testing.T) {
	watch(t, create(t, archive.Config{Index: postgrestest.Test(t).Place}))
}

func TestRemovedRunsLeaveNothingInPostgres(t *testing.T) {
	leaveNothing(t, create(t, archive.Config{Index: postgrestest.Test(t).Place}))
}

func TestNamesAreNotSQLInPostgres(t *testing.T) {
	namesAreNotSQL(t, create(t, archive.Config{Index: postgrestest.Test(t).Place}))
}

// A database that is lost costs no run: a rebuild makes its tables again in another.
func TestALostDatabaseCostsNothing(t *testing.T) {
	server := postgrestest.Test(t)
	s := create(t, archive.Config{Index: server.Place})
	add(t, s, quick)
	add(t, s, failures)
	const all = `SELECT name, contender, driver, cell, metric, verdict, ratio, low, high, blocks, is_primary
		FROM comparisons ORDER BY 1, 2, 3, 4, 5`
	before := rows(t, s.Index, all)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Open(t.Context(), s.Dir); err == nil {
		t.Error("a database that is gone was opened")
	}
	file := filepath.Join(s.Dir, "store.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c archive.Config
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	c.Index = postgrestest.Test(t).Place
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.Dir)
	if n, err := s.Rebuild(t.Context(), nil); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	if after := rows(t, s.Index, all); len(after) == 0 || !slices.EqualFunc(before, after, slices.Equal[[]any]) {
		t.Errorf("before:\n%v\nafter:\n%v", before, after)
	}
	holds(t, s, 2)
}

// A user who may only read the database lists and asks, and changes nothing.
func TestReadersOfTheDatabaseCannotWrite(t *testing.T) {
	place := postgrestest.Test(t).Place
	one := create(t, archive.Config{Index: place})
	digest := add(t, one, quick)
	admin, err := pgx.Connect(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	if _, err := admin.Exec(t.Context(), `CREATE ROLE reader LOGIN;
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User("reader")
	two := create(t, archive.Config{Index: at.String()})
	if runs, err := two.Index.List(t.Context(), index.Filter{}); err != nil || len(runs) != 1 {
		t.Errorf("%v, %v", runs, err)
	}
	if got := rows(t, two.Index, "SELECT count(*) FROM comparisons WHERE lab = 'quick'"); got[0][0] == int64(0) {
		t.Errorf("%v", got)
	}
	run := storetest.Unpack(t, failures, t.TempDir())
	for name, do := range map[string]func() error{
		"add":    func() error { _, _, _, err := two.Add(t.Context(), run); return err },
		"remove": func() error { return two.Index.Remove(t.Context(), digest) },
		"replace": func() error {
			return two.Index.Replace(t.Context(), nil, func() (index.Entry, bool, error) { return index.Entry{}, false, nil })
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, one, 1)
	// The bundle is not lost: with the right to write, it reaches the index.
	if _, err := admin.Exec(t.Context(), `GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader;
		GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader`); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := two.Add(t.Context(), run); err != nil {
		t.Error(err)
	}
	if runs, err := one.Index.List(t.Context(), index.Filter{}); err != nil || len(runs) != 2 {
		t.Errorf("%v, %v", runs, err)
	}
}

// A password in the address of the database is in no error, and others cannot read its file.
func TestThePasswordOfTheDatabase(t *testing.T) {
	const secret = "hush-7d1f0c9e"
	for _, place := range []string{"postgres://ann:" + secret + "@127.0.0.1:1/x", "postgres://ann:" + secret + "@[x/y",
		"postgres://ann:" + secret + "%zz@h/x", "postgres://ann:" + secret + "@h:port/x"} {
		err := archive.Init(t.Context(), filepath.Join(t.TempDir(), "store"), archive.Config{Index: place})
		if err == nil || strings.Contains(err.Error()+fault.Fix(err), secret) {
			t.Errorf("%v", err)
		}
	}
	at, err := url.Parse(postgrestest.Test(t).Place)
	if err != nil {
		t.Fatal(err)
	}
	for who, mode := range map[*url.Userinfo]os.FileMode{url.User(at.User.Username()): 0o644,
		url.UserPassword(at.User.Username(), secret): 0o600} {
		at.User = who
		info, err := os.Stat(filepath.Join(create(t, archive.Config{Index: at.String()}).Dir, "store.json"))
		if err != nil || info.Mode().Perm()&^mode != 0 {
			t.Errorf("%s: %v, %v", who, info.Mode(), err)
		}
	}
}

// A rebuild reads no table as a whole for each run: the time for a run would grow with their
// number. The tables were emptied before, so the database believes that they are small.
func TestRebuildInPostgresIsLinear(t *testing.T) {
	place := postgrestest.Test(t).Place
	x, err := index.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { x.Close() }()
	const runs = 500
	digest := func(n int) string { return fmt.Sprintf("sha256:%064x", n) }
	var all []string
	for n := range runs {
		all = append(all, digest(n))
	}
	replace := func(only []string, runs int) {
		t.Helper()
		n := 0
		if err := x.Replace(t.Context(), only, func() (index.Entry, bool, error) {
			if n == runs {
				return index.Entry{}, false, nil
			}
			past := history.Run{}
			past.Facts = map[string]map[string]string{"host": {"kernel": fmt.Sprint(n)}}
			e := index.Entry{Bundle: digest(n), Past: &past, Record: bundle.Record{Run: fmt.Sprint(n), Lab: "lab",
				Labels: map[string]string{"commit": fmt.Sprint(n)}, Comparisons: []bundle.Comparison{
					{Contender: "a", Cell: "c", Verdict: analysis.Better}, {Contender: "b", Cell: "c", Verdict: analysis.Worse}}}}
			n++
			return e, true, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	// read returns how many rows of each table were read in sequence, when it counts so many
	// comparisons: a connection reports what it did some time after it ended.
	read := func(added int64) map[string]int64 {
		t.Helper()
		for {
			if _, err := db.Exec(t.Context(), "SELECT pg_stat_clear_snapshot()"); err != nil {
				t.Fatal(err)
			}
			got, err := db.Query(t.Context(), "SELECT relname, seq_tup_read, n_tup_ins FROM pg_stat_user_tables")
			if err != nil {
				t.Fatal(err)
			}
			rows := map[string]int64{}
			var name string
			var n, in, comparisons int64
			if _, err := pgx.ForEachRow(got, []any{&name, &n, &in}, func() error {
				if rows[name] = n; name == "comparison" {
					comparisons = in
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if comparisons == added {
				return rows
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	before := map[string]int64{}
	for i, only := range [][]string{nil, all} { // into emptied tables, and instead of what is there
		if i == 0 {
			replace(nil, 0)
		}
		replace(only, runs)
		x.Close()
		if x, err = index.Open(t.Context(), place); err != nil {
			t.Fatal(err)
		}
		after := read(int64(i+1) * 2 * runs)
		for table, n := range after {
			if n -= before[table]; n > 4*runs {
				t.Errorf("%d runs: %d rows of %s were read in sequence", runs, n, table)
			}
		}
		before = after
	}
}
