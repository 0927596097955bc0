package archive_test

import (
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/archive/index/postgrestest"
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
